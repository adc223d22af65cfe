#!/usr/bin/env bash
# Installs what scripts/packages.txt lists and this machine lacks. Silent and without network when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r name; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$name")
done < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' scripts/packages.txt)
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages: ${missing[*]}" >&2
    echo "this user is not root and there is no sudo; as root run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "== installing ${#missing[@]} packages, a minute or two: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Quiet when fine, the whole log when not. Passed through env because sudo drops the environment.
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$log" 2>&1; }
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
  cat "$log" >&2
  echo "could not install: ${missing[*]}" >&2
  exit 1
fi
