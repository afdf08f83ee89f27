// SPDX-License-Identifier: Apache-2.0
// The ONNX node tests of operators that we have; skipped.txt names the others, each with a reason.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "support/test_files.h"
#include "vector_case.h"

namespace flashinfer::test {
namespace {

using RunVector = void (*)(const VectorCase& c);

const std::map<std::string, RunVector>& Runners() {
  static const std::map<std::string, RunVector> runners = {
      {"Attention", RunAttentionVector},
      {"Cast", RunCastVector},
      {"DequantizeLinear", RunDequantizeVector},
      {"FlexAttention", RunAttentionVector},
      {"LayerNormalization", RunLayerNormVector},
      {"QuantizeLinear", RunQuantizeVector},
      {"RMSNormalization", RunRmsNormVector},
      {"RotaryEmbedding", RunRotaryVector},
      {"Softmax", RunSoftmaxVector},
      {"Swish", RunSwishVector},
      {"TensorScatter", RunTensorScatterVector},
  };
  return runners;
}

/// Lines `test_name: reason`.
std::map<std::string, std::string> ReadSkipped() {
  std::ifstream file(EnvOr("FLASHINFER_SOURCE_DIR", ".") + "/tests/onnx/skipped.txt");
  std::map<std::string, std::string> skipped;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) skipped[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return skipped;
}

class VectorTest : public testing::Test {
 public:
  VectorTest(const VectorCase& c, RunVector run) : case_(c), run_(run) {}
  void TestBody() override { run_(case_); }

 private:
  const VectorCase& case_;
  RunVector run_;
};

/// Registers what can run; false when a vector is neither run nor skipped, or a name is no
/// vector's.
bool RegisterAll(const std::vector<VectorCase>& cases) {
  std::map<std::string, std::string> skipped = ReadSkipped();
  bool is_complete = true;
  for (const VectorCase& c : cases) {
    if (skipped.erase(c.name) > 0) continue;
    const auto runner = Runners().find(c.op);
    if (runner == Runners().end()) {
      std::cerr << c.name << ": no runner for " << c.op << ", and not in skipped.txt\n";
      is_complete = false;
      continue;
    }
    testing::RegisterTest(
        "OnnxVectors", c.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&c, run = runner->second]() -> VectorTest* { return new VectorTest(c, run); });
  }
  for (const auto& [name, reason] : skipped) {
    std::cerr << name << ": in skipped.txt, but there is no such vector\n";
    is_complete = false;
  }
  return is_complete;
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::cerr << "usage: onnx_test INDEX (run_vectors.py writes it)\n";
    return 2;
  }
  const std::vector<VectorCase> cases = ReadVectorCases(argv[1]);
  const bool is_complete = RegisterAll(cases);
  return RUN_ALL_TESTS() == 0 && is_complete ? 0 : 1;
}

}  // namespace
}  // namespace flashinfer::test

int main(int argc, char** argv) { return flashinfer::test::Main(argc, argv); }
