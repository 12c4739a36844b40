#include "common/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cmath>

#include "base/text.h"
#include "base/version.h"

namespace planesmith {
namespace {

constexpr int kFormat = 1;  // raised when a field changes its meaning or is removed

Json fields_of_run = Json::object();
std::string next_of_run;

Json as_utf8(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    return is_utf8(text) ? value : Json(printable(text));
  }
  if (!value.is_structured()) return value;
  Json out = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array())
      out.push_back(as_utf8(item));
    else
      out[is_utf8(key) ? key : printable(key)] = as_utf8(item);
  }
  return out;
}

Json error_json(const Error& error) {
  Json out = {{"code", error.label()}, {"message", printable(error.reason())}};
  if (!error.path().empty()) out["path"] = printable(error.path());
  if (!error.tensor().empty()) out["tensor"] = printable(error.tensor());
  if (error.offset()) out["offset"] = *error.offset();
  if (const std::string advice = error.advice(); !advice.empty()) out["advice"] = printable(advice);
  return out;
}

}  // namespace

void print_result(const std::string& text) {
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0)
    throw Error("standard output", strerror(errno));
}

void print_json(Json fields) {
  fields_of_run = std::move(fields);
}

void suggest_next(std::string command) {
  next_of_run = std::move(command);
}
const std::string& next_command() {
  return next_of_run;
}

std::string quoted_paths(const std::vector<std::string>& paths) {
  std::string out;
  for (const std::string& path : paths) out += (out.empty() ? "" : " ") + shell_quoted(path);
  return out;
}

void print_document(const Outcome& outcome) {
  Json out = as_utf8(fields_of_run);
  const std::string program = version();  // "planesmith 0.1.0"
  out["command"] = outcome.command;
  out["version"] = program.substr(program.rfind(' ') + 1);
  out["format"] = kFormat;
  out["ok"] = outcome.exit == 0;
  out["exit"] = outcome.exit;
  out["seconds"] = std::round(outcome.seconds * 1000) / 1000;
  out["bytes_read"] = outcome.bytes_read;
  out["bytes_written"] = outcome.bytes_written;
  if (!out.contains("warnings")) out["warnings"] = Json::array();
  for (const std::string& warning : outcome.warnings) out["warnings"].push_back(printable(warning));
  if (outcome.exit == 0 && !next_of_run.empty()) out["next"] = printable(next_of_run);
  if (outcome.error) out["error"] = error_json(*outcome.error);
  print_result(pretty(out));
}

}  // namespace planesmith
