// Changes members of a JSON file and leaves the rest of its text unchanged, byte for byte.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"

namespace planesmith {

using OrderedJson = nlohmann::ordered_json;

class JsonText {
 public:
  using Keys = std::initializer_list<std::string_view>;  // path of keys, outermost first

  // Error: not a JSON object, or parsing it takes more than max_memory bytes. path: for errors.
  JsonText(std::string text, std::string path, std::uint64_t max_memory = kMostJsonMemory);
  const std::string& text() const { return text_; }

  OrderedJson value(Keys keys) const;  // null: no such member
  // Replaces the member's value, or adds the member at the end of its object. Does nothing where that object
  // is missing.
  void set(Keys keys, const OrderedJson& value);
  void drop(Keys keys);

 private:
  // Offset of the brace of the object that holds the last key; npos: no such object.
  std::size_t holder(Keys keys) const;
  std::string text_, path_;
};

}  // namespace planesmith
