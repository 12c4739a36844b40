// Verdicts and stores as text and JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "store/probe.h"
#include "verify/sample.h"

namespace planesmith {

std::string to_text(const BootVerdict& verdict);
Json to_json(const BootVerdict& verdict);

std::string to_text(const SampleReport& report);
Json to_json(const SampleReport& report);

std::string to_text(const Store& store);
Json to_json(const Store& store);

}  // namespace planesmith
