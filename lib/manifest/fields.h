// Reads the objects of a manifest strictly: nothing missing, nothing unknown, nothing of another type.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/hash.h"
#include "base/json.h"

namespace planesmith {

// One JSON object; remembers which keys were read, so that done() can refuse the
// others. All refusals are Errors that name the file (`path`) and the object
// (`where`, as in "'a/b' has no ..."). Object and path must outlive this.
class Fields {
 public:
  Fields(const Json& object, const std::string& path, std::string where);

  const Json* find(const char* key);  // null: absent
  const Json& need(const char* key);
  std::string text(const char* key);
  std::uint64_t number(const char* key, std::uint64_t least, std::uint64_t most);
  const Json& list(const char* key);
  Xxh3 digest(const char* key);
  std::vector<Xxh3> digests(const char* key);
  void done();  // Error: a key that was not read
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Json& object_;
  const std::string& path_;
  const std::string where_;
  std::set<std::string> known_;
};

}  // namespace planesmith
