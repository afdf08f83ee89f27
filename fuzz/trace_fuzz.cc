// SPDX-License-Identifier: Apache-2.0
// Reads any text as a trace; what was read is written and must read back as it was.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/trace.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

/// What comes before the first error.
std::vector<TraceRequest> Read(const std::string& text, bool may_fail) {
  std::vector<TraceRequest> requests;
  try {
    TraceReader reader("fuzz", std::make_unique<std::istringstream>(text));
    while (auto request = reader.Next()) requests.push_back(*request);
  } catch (const Error&) {
    if (!may_fail) throw;
  }
  return requests;
}

void Check(const std::string& text) {
  std::vector<TraceRequest> requests = Read(text, true);
  double last_arrival_s = 0;
  for (const TraceRequest& request : requests) {
    if (!(request.arrival_s >= last_arrival_s) || request.input_length < 1 ||
        request.output_length < 0) {
      std::abort();
    }
    last_arrival_s = request.arrival_s;
  }
  std::ostringstream written;
  WriteMooncakeTrace(written, requests);
  std::vector<TraceRequest> again = Read(written.str(), false);
  if (again.size() != requests.size()) std::abort();
  for (size_t i = 0; i < again.size(); ++i) {
    again[i].arrival_s = requests[i].arrival_s;  // was rounded
    if (again[i] != requests[i]) std::abort();
  }
}

}  // namespace
}  // namespace flashinfer::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  flashinfer::engine::Check(std::string(reinterpret_cast<const char*>(bytes), size));
  return 0;
}
