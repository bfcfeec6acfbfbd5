#!/bin/bash
# stacks.sh - stacks as `go tool pprof`, the library pprof-format and speedscope's schema read them.
#
# Random heaps, drawn ones and a recorded program by each word: the totals that pprof shows for each
# sample type are those of the store, the library decodes and encodes the same figures, and the JSON
# is what the schema allows. Flame graphs are drawn by Chromium, wide and narrow.
# needs: golang-go nodejs chromium
# npm: pprof-format@2.3.2 speedscope@1.25.0 ajv@6
set -eu
heapx=$HX_BUILDDIR/heapx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work PPROF_TMPDIR=$work HX_NODE_MODULES

fail() {
    echo "FAILED: $*"
    exit 1
}

for tool in go node chromium; do
    if ! command -v "$tool" >/dev/null; then
        echo "there is no $tool"
        exit 77
    fi
done

cat >"$work/read.mjs" <<'JS'
// Prints the sums of a profile's values as the library reads them; checks JSON by the schema.
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';
import fs from 'node:fs';
import zlib from 'node:zlib';
const folder = process.env.HX_NODE_MODULES, require = createRequire(`${folder}/x.js`);
const [what, ...files] = process.argv.slice(2);
if (what === 'schema') {
  const Ajv = require('ajv');
  const name = `${folder}/speedscope/dist/release/file-format-schema.json`;
  const valid = new Ajv().compile(JSON.parse(fs.readFileSync(name)));
  for (const file of files)
    if (!valid(JSON.parse(fs.readFileSync(file)))) {
      console.log(file, JSON.stringify(valid.errors));
      process.exit(1);
    }
} else {
  const {Profile} = await import(pathToFileURL(require.resolve('pprof-format')));
  for (const file of files) {
    const bytes = zlib.gunzipSync(fs.readFileSync(file)), profile = Profile.decode(bytes);
    const text = i => profile.stringTable.strings[Number(i)];
    const again = Profile.decode(profile.encode());
    const sums = made => made.sampleType.map((type, i) =>
      made.sample.reduce((sum, sample) => sum + BigInt(sample.value[i]), 0n));
    if (String(sums(profile)) !== String(sums(again))) throw new Error(`${file}: encoded`);
    profile.sampleType.forEach((type, i) =>
      console.log(text(type.type), String(sums(profile)[i])));
  }
}
JS

# What pprof shows as the total of a sample type.
total() {
    (cd / && go tool pprof -top -nodecount=1 -unit=B -sample_index="$2" "$1" 2>"$work/err") |
        sed -n 's/^.* of \([0-9]*\)B\{0,1\} total$/\1/p'
}

sql() {
    "$heapx" sql "$1" "$2" --format csv | tail -n +2
}

stores=("$work/drawn.db" "$work/random.db" "$work/recorded.db")
"$HX_BUILDDIR/test/ui/make_store" "$work/drawn.db" 2 60 recorded
"$HX_BUILDDIR/test/export/random_store" "$work/random.db" 3
"$heapx" run -o "$work/recorded.db" --at-exit -- python3 -c 'x = [str(i) * 9 for i in range(3000)]' \
    || [ $? = 3 ]

files=0
for store in "${stores[@]}"; do
    bytes=$(sql "$store" 'SELECT heap_bytes FROM snapshots ORDER BY snapshot DESC LIMIT 1')
    objects=$(sql "$store" 'SELECT heap_objects FROM snapshots ORDER BY snapshot DESC LIMIT 1')
    for by in ccs site dominator chain retainer bin type module leak; do
        status=0
        "$heapx" export "$store" pprof --by "$by" -o "$work/p.pb.gz" 2>"$work/err" || status=$?
        [ "$status" = 1 ] && grep -q 'has no data' "$work/err" && continue
        [ "$status" = 0 ] || fail "pprof by $by: $(cat "$work/err")"
        node "$work/read.mjs" sums "$work/p.pb.gz" >"$work/sums"
        grep -qx "inuse_space $bytes" "$work/sums" || fail "$store by $by: $(cat "$work/sums")"
        grep -qx "inuse_objects $objects" "$work/sums" || fail "$store by $by: objects"
        while read -r type sum; do
            shown=$(total "$work/p.pb.gz" "$type")
            [ "$shown" = "$sum" ] || fail "$store by $by: pprof says $shown $type, not $sum"
        done <"$work/sums"
        "$heapx" export "$store" speedscope --by "$by" -o "$work/s.json" 2>/dev/null
        node "$work/read.mjs" schema "$work/s.json" || fail "speedscope by $by"
        "$heapx" export "$store" flamegraph --by "$by" -o "$work/f$files.svg" 2>/dev/null
        files=$((files + 1))
    done
done
[ "$files" -ge 15 ] || fail "only $files profiles"
for width in 1280 390; do
    timeout 60 chromium --headless=new --no-sandbox --hide-scrollbars --user-data-dir="$work/c" \
        --screenshot="$work/$width.png" --window-size="$width,700" "file://$work/f0.svg" \
        >"$work/err" 2>&1 || fail "chromium: $(tail -1 "$work/err")"
    [ -s "$work/$width.png" ] || fail "no picture at $width pixels"
done
echo "$files profiles read"
