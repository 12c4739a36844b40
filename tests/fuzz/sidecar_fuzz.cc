// Input: a meta.json or a pack's sidecar. What is accepted must come out again as it was understood.
#include "base/error.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "require.h"

using namespace planesmith;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const format::CacheMeta meta = format::parse_meta(text, "meta.json");
    require(format::parse_meta(format::meta_json(meta), "again") == meta);
    require(format::cache_key(meta).size() == 20);
  } catch (const Error& error) {
    require(error.path() == "meta.json");
  }
  try {
    const format::Sidecar sidecar = format::parse_sidecar(text, "sidecar");
    const std::string written = format::sidecar_json(sidecar.spec, sidecar.layer_keys);
    const format::Sidecar again = format::parse_sidecar(written, "again");
    require(again.spec == sidecar.spec && again.layer_keys == sidecar.layer_keys);
  } catch (const Error& error) {
    require(error.path() == "sidecar");
  }
  return 0;
}
