#include "manifest/fields.h"

#include <fmt/format.h>

#include "base/error.h"

namespace planesmith {

Fields::Fields(const Json& object, const std::string& path, std::string where)
    : object_(object), path_(path), where_(std::move(where)) {
  if (!object.is_object()) refuse("is not an object");
}

const Json* Fields::find(const char* key) {
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

const Json& Fields::need(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) refuse(fmt::format("has no \"{}\"", key));
  return *value;
}

std::string Fields::text(const char* key) {
  const Json& value = need(key);
  if (!value.is_string()) refuse(fmt::format("\"{}\" is not a string", key));
  return value.get<std::string>();
}

std::uint64_t Fields::number(const char* key, std::uint64_t least, std::uint64_t most) {
  const Json& value = need(key);
  if (!value.is_number_unsigned() || value < least || value > most)
    refuse(fmt::format("\"{}\" is not a whole number from {} to {}", key, least, most));
  return value.get<std::uint64_t>();
}

const Json& Fields::list(const char* key) {
  const Json& value = need(key);
  if (!value.is_array()) refuse(fmt::format("\"{}\" is not a list", key));
  return value;
}

Xxh3 Fields::digest(const char* key) {
  Xxh3 digest;
  if (!Xxh3::parse(text(key), digest)) refuse(fmt::format("\"{}\" is not 32 lowercase hex digits", key));
  return digest;
}

std::vector<Xxh3> Fields::digests(const char* key) {
  std::vector<Xxh3> digests;
  for (const Json& digest : list(key)) {
    if (!digest.is_string() || !Xxh3::parse(digest.get_ref<const std::string&>(), digests.emplace_back()))
      refuse(fmt::format("digest {} of \"{}\" is not 32 lowercase hex digits", digests.size() - 1, key));
  }
  return digests;
}

void Fields::done() {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key)) refuse(fmt::format("has the unknown key \"{}\"", key));
}

void Fields::refuse(const std::string& what) const {
  throw Error(path_, fmt::format("is not a usable manifest: {} {}", where_, what));
}

}  // namespace planesmith
