// Family fill: mydev.fill(out; value).
#include <cstring>

#include "kernels/isa/isa.h"
#include "kernels/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

mydev_code fill_entry(const mydev_frame* frame) {
  return MYDEV_UNIMPLEMENTED;
}

constexpr mydev_kernel kRecords[] = {
    {sizeof(mydev_kernel), "mydev.fill", fill_entry, nullptr, "out T; value: each element becomes value", nullptr},
};

}  // namespace

std::span<const mydev_kernel> fill() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
