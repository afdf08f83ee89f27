// SPDX-License-Identifier: Apache-2.0
// Stands behind a unit: its entry, as the driver loads it.
#pragma once

namespace flashinfer::software_device {

template <class Params>
constexpr size_t ParamBytes(void (*)(Params)) {
  static_assert(sizeof(Params) <= 4096, "a launch takes no more");
  return sizeof(Params);
}
template <class Params>
void Call(void (*kernel)(Params), void** params) {
  kernel(*static_cast<Params*>(params[0]));
}

}  // namespace flashinfer::software_device

extern "C" __attribute__((visibility("default")))
const ::flashinfer::software_device::Image flashinfer_image{
    [](const ::flashinfer::software_device::Services* services) {
      ::flashinfer::software_device::services = services;
    },
    [](void** params) { ::flashinfer::software_device::Call(&flashinfer_kernel, params); },
    ::flashinfer::software_device::ParamBytes(&flashinfer_kernel)};
