#!/bin/bash
# Unpacks the pieces in this folder and in part* beside it, and runs them:
#   bash part1/run.sh [options of `python -m loadtests.gpu`]
# One table, then the tests of a card. PYTHON: another python3; HOME_OF_BUNDLE: where to unpack.
set -u
here=$(cd "$(dirname "$0")" && pwd)
into=${HOME_OF_BUNDLE:-$(mktemp -d)}
[ -d "$into/venv" ] || "${PYTHON:-python3}" "$here/unpack.py" "$here" "$into" || exit
cd "$into/code" || exit
python=$into/venv/bin/python
unset PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH="$into/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if "$python" -c 'import tritonclient.grpc' 2>/dev/null; then
  "$python" -m gateway doctor 2>&1
else
  echo "spillway doctor: not run, it needs what the piece 'serving' brings"
fi
"$python" -m loadtests.gpu "$@"
table=$?
if "$python" -c 'import pytest, pytest_timeout' 2>/dev/null; then
  "$python" -m pytest -q -rs -p no:randomly -p no:cacheprovider --confcutdir=tests/gpu tests/gpu
else
  echo "tests/gpu: skipped, pytest and pytest-timeout are not installed"
fi
exit "$table"
