#!/usr/bin/env bash
# Renews constraints.txt: the newest version of everything that the ranges of pyproject.toml allow, installed into an
# environment of its own and written down.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[dev]"
{
  echo "# The exact versions that passed. Made by make lock with Python $("$folder/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); ranges are in pyproject.toml."
  "$folder/bin/python" -m pip freeze --all --exclude-editable --exclude setuptools
} > constraints.txt.new
if grep -nE '@|://|^-' constraints.txt.new; then
  echo "a package is not named by its version alone" >&2
  rm constraints.txt.new
  exit 1
fi
mv constraints.txt.new constraints.txt
