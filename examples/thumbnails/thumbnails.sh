#!/usr/bin/env bash
# thumbnails.sh FOLDER: three workers make thumbnails of the pictures in FOLDER, each under the key thumbs/NAME. One of them is stopped in the
# middle, as a suspended machine would be, and resumed when it is too late.
set -euo pipefail
PATH=$(cd "$(dirname "$0")/../.." && pwd)/bin:$PATH

work=$(mktemp -d)
stalled=() # processes that are stopped: the first worker, and the group of its command
cleanup() {
	for process in ${stalled[@]+"${stalled[@]}"}; do
		kill -KILL -- "$process" 2>/dev/null || true
	done
	for process in $(jobs -p); do
		kill "$process" 2>/dev/null || true
	done
	wait
	rm -rf "$work"
}
trap cleanup EXIT

await() { # await FILE PROCESS: until the process has written a line into the file
	until [ -s "$1" ]; do
		if ! kill -0 "$2" 2>/dev/null; then
			cat "$work"/*.log >&2
			return 1
		fi
		sleep 0.05
	done
}

names=()
for picture in "$1"/*; do
	name=${picture##*/}
	names+=("${name%.*}")
	ln -s "$(realpath "$picture")" "$work/${name%.*}"
done

# thumbnail WORKER NAME: a thumbnail of one picture. The lease is short, so that a worker that stalls isn't waited for long.
thumbnail() {
	# shellcheck disable=SC2016 # The command expands it, in the environment that pawl makes.
	pawl run --key "thumbs/$2" --holder "$1" --ttl 2s --wait 30s -- \
		sh -c 'vipsthumbnail "$1" --size 96 -o "$PAWL_OUT/thumb.jpg"' sh "$work/$2"
}

# worker NUMBER START: every second picture, from START on.
worker() {
	for ((i = $2; i < ${#names[@]}; i += 2)); do
		thumbnail "worker-$1" "${names[i]}"
	done
}

# Worker 1 has an old setting, and is stopped after it was granted the first picture: the wrapper and all of its command.
first=${names[0]}
# shellcheck disable=SC2016 # See above.
pawl run --key "thumbs/$first" --holder worker-1 --ttl 2s -- sh -c \
	'echo $$ >"$1/started"; while [ ! -e "$1/resume" ]; do sleep 0.05; done; vipsthumbnail "$2" --size 40 -o "$PAWL_OUT/thumb.jpg"' \
	sh "$work" "$work/$first" 2>"$work/worker-1.log" &
stale=$!
await "$work/started" "$stale"
stalled=("$stale" "-$(cat "$work/started")")
kill -STOP -- "${stalled[@]}"
echo "worker-1 is stopped while it holds thumbs/$first"

# The others go on with the rest meanwhile.
worker 2 1 2>"$work/worker-2.log" & others=($!)
worker 3 2 2>"$work/worker-3.log" & others+=($!)
for other in "${others[@]}"; do
	wait "$other" || { cat "$work"/worker-*.log >&2; exit 1; }
done
echo "${#names[@]} pictures, $((${#names[@]} - 1)) thumbnails"

# Worker 2 takes the first picture over, as soon as its lease has run out.
thumbnail worker-2 "$first" 2>>"$work/worker-2.log"
echo "worker-2 has taken over thumbs/$first"

# Worker 1 wakes up, and goes on as if nothing had happened.
touch "$work/resume"
kill -CONT -- "${stalled[@]}"
code=0
wait "$stale" || code=$?
stalled=()
echo "worker-1 wakes up and exits with $code:"
grep fenced "$work/worker-1.log"

# What readers see.
for name in "${names[@]}"; do
	pawl get "thumbs/$name" -o "$work/thumb.jpg" >/dev/null
	echo "thumbs/$name: $(vipsheader -f width "$work/thumb.jpg") pixels wide"
done
pawl history "thumbs/$first"
