"""The weights of this machine: those that ``penstock calibrate`` stored, else those shipped with Penstock."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from penstock.cost.model import METHODS, Weight, Weights
from penstock.errors import PenstockError

PLACE = "PENSTOCK_WEIGHTS"
"""The environment variable with the path of the file."""

SHIPPED: Weights = {
    "hash": Weight(0.0, 3.3e-9, search_doubling=2.4e-9),
    "b+tree": Weight(0.0, 0.0, update_at_least=2.9e-8, search_doubling=6.4e-9, update_doubling=3.9e-9),
    "t-tree": Weight(5.7e-9, 0.0, update_at_least=1.1e-8, update_doubling=5.9e-9),
    "none": Weight(8.1e-10, 1.2e-10, search_at_least=4.9e-8),
}
"""Seconds of one core, measured by ``penstock calibrate`` on the machine Penstock is developed on."""


def place() -> Path:
    """The file with the weights of this machine."""
    named = os.environ.get(PLACE)
    return Path(named) if named else Path.home() / ".cache" / "penstock" / "weights.json"


def load(path: Path | None = None) -> Weights:
    """The stored weights, or the shipped ones."""
    path = path or place()
    try:
        text = path.read_text()
    except OSError:
        return SHIPPED
    try:
        stored = {name: Weight(**weight) for name, weight in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        stored = {}
    if stored.keys() != METHODS.keys():
        raise PenstockError(f"{path} is not a file of weights; run 'penstock calibrate' or remove the file")
    return stored


def save(weights: Weights, path: Path | None = None) -> Path:
    """Store the weights of this machine; returns the file."""
    path = path or place()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: asdict(weight) for name, weight in weights.items()}, indent=1) + "\n")
    return path
