// Changes members of a JSON file and leaves the rest of its text as it is, byte for byte.
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
  using Keys = std::initializer_list<std::string_view>;  // from the top down

  // Error: not a JSON object, or one that takes more than max_memory while it is looked at. path: for errors.
  JsonText(std::string text, std::string path, std::uint64_t max_memory = kMostJsonMemory);
  const std::string& text() const { return text_; }

  OrderedJson value(Keys keys) const;  // null where it is not there
  // Puts the value in place of the one that is there, or at the end of its object. Nothing where the object
  // that should hold it is not there.
  void set(Keys keys, const OrderedJson& value);
  void drop(Keys keys);

 private:
  // The brace of the object that holds the last of the keys; npos: it is not there.
  std::size_t holder(Keys keys) const;
  std::string text_, path_;
};

}  // namespace planesmith
