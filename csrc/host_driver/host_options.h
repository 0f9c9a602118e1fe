// Options of the host driver: MYDEV_DRIVER=host:devices=2,memory=4G,async,guarded,remote,faults=7:copy@3.
#pragma once

#include <cstdint>
#include <string_view>

#include "host_driver/faults.h"

namespace mydev::host_driver {

inline constexpr int32_t kMaxHostDevices = 16;

// The kernels of a remote device: the host's as its own, none but a compiler's, or none.
enum class RemoteKernels : uint8_t { kAll, kCompiled, kNone };

struct HostOptions {
  int32_t devices = 1;        // devices=N
  uint64_t memory = 0;        // memory=SIZE: bytes of each device; 0: the machine's physical memory
  bool asynchronous = false;  // async: each stream is a thread
  bool guarded = false;       // guarded: device memory is inaccessible outside launches, copies and host access
  bool remote = false;        // remote: the host has no access to device memory
  RemoteKernels kernels = RemoteKernels::kAll;  // kernels=all|compiled|none: what a remote device brings
  FaultPlan faults;  // faults[=[SEED][:KIND@N]...]: a seed, or nothing at all, asks for delays
};

// Raises INVALID_ARGUMENT naming the option and what is valid.
HostOptions parse_host_options(std::string_view text);

}  // namespace mydev::host_driver
