# Typos on the command line are named; versions and sizes are printed.
source "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint

for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts; do
  expect 2 $program --no-such-flag
  says "^$program: '--no-such-flag' is not an option of $program; see $program --help"
  expect 0 $program --version
  prints "^$program \(planesmith [0-9.]+\)$"
  prints '^zstd .* xxHash .*OpenSSL'
done
expect 2 verify-ckpt-id chekc --planescache x
says "'chekc' is not a subcommand; did you mean check\? there are: id, manifest, verify, repair, check, list, audit, prune, rekey"
expect 2 verify-ckpt-id check --planescach x
says "'--planescach' is not an option of verify-ckpt-id check; did you mean --planescache\?"
expect 2 verify-ckpt-id list x
says "'x' is not an argument of verify-ckpt-id list; see verify-ckpt-id list --help"
expect 2 verify-ckpt-id id "$CK" --nope
says "'--nope' is not an option"
expect 2 build-planescache "$CK" -o new more
says "'more' is not an argument"
expect 2 build-planescache "$CK"
says '--out is required'
expect 0 build-planescache "$CK" -o new -n --memory 3GB
says '^memory cap: 2.79 GiB \(3000000000 bytes\)$'

# A value that is not accepted; sizes as people write them.
expect 2 build-planescache "$CK" -o new --fp4 nibbel
says 'did you mean nibble\?'
expect 2 build-planescache "$CK" -o new --zero-mode atl
says 'did you mean alt\?'
for size in 3G 3g 3GiB 3gib 3221225472; do
  expect 0 build-planescache "$CK" -o new -n --memory $size
  says '^memory cap: 3.00 GiB \(3221225472 bytes\)$'
done
expect 0 build-planescache "$CK" -o new -n --memory 64M && says '^memory cap: 64.0 MiB'
for size in 3Q 3.5G G '3 G' -1; do expect 2 build-planescache "$CK" -o new -n --memory "$size"; done

# What is said of CUDA is what the backend says.
if build-planescache --version | grep -q 'CUDA backend not built in'; then
  expect 1 build-planescache "$CK" -o new -n --backend cuda --ckpt-id x && says 'built without it'
  expect 1 build-planescache "$CK" -o new -n --gpus 0 --ckpt-id x && says 'built without it'
else
  build-planescache --version | grep -q 'CUDA backend built in' || fail "--version says nothing of CUDA"
  build-planescache "$CK" -o new -n --backend cuda --ckpt-id x 2>"$WORK/err"
  grep -q 'built without it' "$WORK/err" && fail "--version says that CUDA is built in"
fi
expect 2 build-planescache "$CK" -o new -n --backend cpu --gpus 0 --ckpt-id x

# One limit for the world, wherever it is given.
mkdir x
expect 2 verify-ckpt-id check --planescache x --world 4097
says 'world.* 4097 not in range'
expect 2 build-planescache "$CK" -o new --world 4097
says 'world.* 4097 not in range'
expect 3 verify-ckpt-id check --planescache x --world 4096

# A checkpoint in a Hugging Face cache is links; nothing is written to where they lead.
mkdir -p hub/models--a--b/{blobs,snapshots/0123}
for file in "$CK"/*; do
  cp "$file" "hub/models--a--b/blobs/${file##*/}.blob"
  ln -s "../../blobs/${file##*/}.blob" "hub/models--a--b/snapshots/0123/${file##*/}"
done
for out in blobs/cache snapshots/0123/cache refs; do
  expect 2 build-planescache hub/models--a--b/snapshots/0123 -o "hub/models--a--b/$out" --ckpt-id x
  says "lies inside the checkpoint \($PWD/hub/models--a--b.*\); choose a directory outside"
done
expect 0 build-planescache hub/models--a--b/snapshots/0123 -o hub/cache --ckpt-id x -q
# What is given instead of a checkpoint: the cache, a repository in it, a directory of several, one without any.
for above in hub hub/models--a--b hub/models--a--b/snapshots; do
  expect 1 build-planescache "$above" -o new; says "$above/config.json: is missing; .*; hub/models--a--b/snapshots/0123 is one$"
  expect 1 verify-ckpt-id id "$above"; says "is it a checkpoint directory\? hub/models--a--b/snapshots/0123 is one$"
  expect 3 verify-ckpt-id audit "$above"; prints 'downloaded to; hub/models--a--b/snapshots/0123 is one$'
done
cp -r hub/models--a--b/snapshots/0123 hub/models--a--b/snapshots/4567
expect 1 build-planescache hub -o new; says '; hub/models--a--b/snapshots/0123 and others are$'
mkdir -p none/{tokenizer,inference} && cp "$CK/config.json" none/inference
expect 1 build-planescache none -o new; says 'config.json included$'
expect 1 verify-ckpt-id id none; says 'is it a checkpoint directory\?$'
finish
