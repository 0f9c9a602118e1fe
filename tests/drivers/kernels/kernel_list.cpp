// The kernels of a device that `mydev new-device` wrote: those of the conformance suite, and kMoreKernels, if there are
// more. Takes the place of its kernels.c.
#include <span>
#include <vector>

#include "mydev/custom_call.h"

#ifdef MYDEV_MORE_KERNELS
extern const std::span<const mydev_kernel> kMoreKernels;
#else
static constexpr std::span<const mydev_kernel> kMoreKernels;
#endif

// Names of the device's, such as discrete_kernels.
#define JOINED(device, name) device##_##name
#define NAME(device, name) JOINED(device, name)

extern "C" {

extern const mydev_kernel NAME(MYDEV_TEST_DEVICE, conformance_scale), NAME(MYDEV_TEST_DEVICE, conformance_fail);

const mydev_kernel* const* NAME(MYDEV_TEST_DEVICE, kernels)() {
  static const std::vector<const mydev_kernel*> all = [] {
    std::vector<const mydev_kernel*> listed = {&NAME(MYDEV_TEST_DEVICE, conformance_scale),
                                               &NAME(MYDEV_TEST_DEVICE, conformance_fail)};
    for (const mydev_kernel& kernel : kMoreKernels) listed.push_back(&kernel);
    listed.push_back(nullptr);
    return listed;
  }();
  return all.data();
}

}  // extern "C"
