// SPDX-License-Identifier: Apache-2.0
// One ONNX node test: an operator's inputs, attributes and expected outputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/host_tensor.h"

namespace flashinfer::test {

struct VectorTensor {
  std::string dtype;  ///< as DType's text form where we have it
  std::vector<int64_t> shape;
  std::vector<double> values;  ///< row-major

  int64_t num_elements() const { return static_cast<int64_t>(values.size()); }
  /// Elements from dimension `axis` on, and before it; a negative axis counts from the end.
  int64_t SizeFrom(int64_t axis) const;
  int64_t SizeBefore(int64_t axis) const { return num_elements() / SizeFrom(axis); }
};

struct VectorCase {
  std::string name;
  std::string op;
  std::map<std::string, double> attributes;  ///< those that are numbers
  std::vector<std::optional<VectorTensor>> inputs, outputs;

  const VectorTensor& input(size_t i) const { return inputs.at(i).value(); }
  const VectorTensor* optional_input(size_t i) const {
    return i < inputs.size() && inputs[i] ? &*inputs[i] : nullptr;
  }
  const VectorTensor& output(size_t i = 0) const { return outputs.at(i).value(); }
  template <class T>
  T Attribute(const char* attribute, T fallback) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? fallback : static_cast<T>(found->second);
  }
};

/// The cases of an index that run_vectors.py wrote. Values of types that are none of ours are
/// empty.
std::vector<VectorCase> ReadVectorCases(const std::string& index);

/// The values as a tensor of another shape with as many elements.
HostTensor MakeTensor(const VectorTensor& tensor, const Dims& shape);

// What each operator's vectors run; each checks the outputs.
void RunAttentionVector(const VectorCase& c);
void RunCastVector(const VectorCase& c);
void RunQuantizeVector(const VectorCase& c);
void RunRmsNormVector(const VectorCase& c);
void RunDequantizeVector(const VectorCase& c);
void RunLayerNormVector(const VectorCase& c);
void RunRotaryVector(const VectorCase& c);
void RunSoftmaxVector(const VectorCase& c);
void RunSwishVector(const VectorCase& c);
void RunTensorScatterVector(const VectorCase& c);

}  // namespace flashinfer::test
