# Slips on the command line are named; versions and sizes are told.
source "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint

for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts; do
  expect 2 $program --no-such-flag
  says "^$program: '--no-such-flag' is no flag of this program"
  expect 0 $program --version
  prints "^$program \(planesmith [0-9.]+\)$"
  prints '^zstd .* xxHash .*OpenSSL'
done
expect 2 verify-ckpt-id chekc --planescache x
says "'chekc' is not a subcommand; there are: id, manifest, verify, check, list, audit, prune, rekey"
expect 2 verify-ckpt-id check --planescach x
says "'--planescach' is no flag"
expect 2 verify-ckpt-id id "$CK" --nope
says "'--nope' is no flag"
expect 2 build-planescache "$CK" -o new more
says "'more' is no argument"
expect 2 build-planescache "$CK"
says '--out is required'
expect 0 build-planescache "$CK" -o new -n --memory 3GB
says '^memory cap: 2.79 GiB \(3000000000 bytes\)$'

# One limit for the world, wherever it is given.
expect 2 verify-ckpt-id check --planescache x --world 4097
says 'world.* 4097 not in range 1 to 4096'
expect 2 build-planescache "$CK" -o new --world 4097
says 'world.* 4097 not in range 1 to 4096'
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
finish
