"""Private fields of objects of the JVM: Spark and py4j have no calls for what is read and set here."""

from __future__ import annotations

from typing import Any


def read_field(owner: Any, name: str) -> Any:
    """The value of a field of an object, or of what its class extends."""
    return _field(owner, name).get(owner)


def set_field(owner: Any, name: str, value: Any) -> None:
    """Set a field."""
    _field(owner, name).set(owner, value)


def _field(owner: Any, name: str) -> Any:
    found = owner.getClass()
    while name not in [field.getName() for field in found.getDeclaredFields()]:
        found = found.getSuperclass()
    field = found.getDeclaredField(name)
    field.setAccessible(True)
    return field
