#!/usr/bin/env bash
# render.sh KEY FIRST LAST: a worker that renders these frames of twelve, as frame.01.png and so on. Under `pawl run` it leaves them in PAWL_OUT;
# else it uploads each one under the grant in lease.json, which several workers may share. POV flags in RENDER are passed on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$(cd "$here/../.." && pwd)/bin:$PATH
key=$1 first=$2 last=$3 lease=$PWD/lease.json

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/frames"

# POV-Ray puts the number, as wide as that of the last frame of all, before the suffix of +O. It opens no window (-D), and is talkative.
cd "${PAWL_OUT-$work/frames}"
# shellcheck disable=SC2086 # RENDER may hold several flags.
povray -D ${RENDER-} +I"$here/scene.pov" +Oframe..png +W64 +H48 +WT1 +KFF12 +SF"$first" +EF"$last" >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	exit 1
}

if [ -z "${PAWL_OUT-}" ]; then
	for frame in *; do
		pawl put "$key" "$frame" --lease-file "$lease"
	done
fi
