// URLs for the hub code: http and https only, parsed by libcurl.
#pragma once

#include <string>
#include <string_view>

namespace planesmith::hub {

class Url {
 public:
  // An absolute URL. Errors: not a URL, a scheme other than http and https, a user name or password in it.
  static Url parse(std::string_view text);
  // Resolves a relative or absolute reference found at this URL (Location, Link). Errors as parse().
  Url resolve(std::string_view reference) const;

  const std::string& text() const { return text_; }
  const std::string& origin() const { return origin_; }  // "https://host:443"
  const std::string& path() const { return path_; }      // encoded, with the query
  bool same_origin(const Url& other) const { return origin_ == other.origin_; }
  // For messages: without the query, which may hold a signature.
  std::string shown() const;

 private:
  std::string text_, origin_, path_;
};

// Percent-encodes everything but letters, digits and "-._~"; encode_path keeps '/' as well.
std::string encode(std::string_view text);
std::string encode_path(std::string_view path);

}  // namespace planesmith::hub
