# Few open files, little memory for threads, few processors: the programs take what there is, or say what they need.
source "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
make-checkpoint --layers 9 --experts 6 --shards 40 -o many -q >/dev/null 2>log || { cat log; exit 1; }
build-planescache many -o right --store right-s --tiers base,fp4 --ckpt-id x -q >/dev/null || fail "cannot build"
repack-experts build many right-r --levels 4 --granularity tensor-sym -q >/dev/null || fail "cannot repack"

with_files() { local files=$1; shift; (ulimit -n "$files"; exec "$@"); }
for files in 24 64; do
  rm -rf c s t r
  packs=(--store s --tiers "base,fp4")
  [ $files = 64 ] || packs=()
  expect 0 with_files $files build-planescache many -o c "${packs[@]}" --ckpt-id x -T 8
  diff -r right c || fail "$files files: another cache"
  [ $files != 64 ] || diff -r right-s s || fail "$files files: other packs"
  expect 0 with_files $files build-fp4-packs --from-planescache c -o t --tiers base,fp4 -T 8
  diff -r right-s t || fail "$files files: other packs from the cache"
  expect 0 with_files $files repack-experts build many r --levels 4 --granularity tensor-sym -T 8
  diff -r --exclude=.repack-experts right-r r || fail "$files files: another repacked checkpoint"
  expect 0 with_files $files verify-ckpt-id manifest many --out "m$files.json" -T 8
  expect 0 with_files $files verify-ckpt-id id many --recompute -T 8
done
expect 2 with_files 24 build-planescache many -o d --world 2 --store d --tiers base,fp4 --ckpt-id x -T 8
says '^build-planescache: [0-9]+ more files must be open at once and this process may open [0-9]+ more; raise the limit'
absent d

if [ -z "${SANITIZED:-}" ]; then
  mkdir few && for n in $(seq 300); do echo "$n" >"few/$n"; done
  expect 0 verify-ckpt-id manifest few --out right.json
  expect 0 bash -c 'ulimit -v 400000; exec verify-ckpt-id manifest few --out tight.json -T 200 --memory 1GiB'
  same right.json tight.json
fi
finish
