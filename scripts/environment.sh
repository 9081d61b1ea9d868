#!/bin/sh
# Packs Penstock and what it imports into an archive for a cluster's executors: environment.sh [OUT.tar.gz]
# Versions are those of requirements.lock. Executors have Spark's jars already, so those stay out.
set -eu
cd "$(dirname "$0")/.."

out=${1:-build/environment.tar.gz}
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/environment"
.venv/bin/uv pip install --quiet --python "$work/environment/bin/python" --constraints requirements.lock \
    . venv-pack==0.2.0
mkdir -p "$(dirname "$out")"
"$work/environment/bin/venv-pack" --quiet --force --compress-level 1 --prefix "$work/environment" --output "$out" \
    --exclude '*/pyspark/jars/*' --exclude '*/__pycache__/*'
echo "$out: $(du -h "$out" | cut -f1)"
