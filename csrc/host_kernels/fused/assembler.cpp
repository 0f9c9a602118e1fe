#include "host_kernels/fused/assembler.h"

#include <sys/mman.h>

#include <cstring>

namespace mydev::kernels {

ExecutableMemory::ExecutableMemory(std::span<const uint8_t> code) : size_(code.size()) {
  void* const data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return;
  std::memcpy(data, code.data(), size_);
  if (mprotect(data, size_, PROT_READ | PROT_EXEC) == 0) {
    data_ = data;
  } else {
    munmap(data, size_);
  }
}

ExecutableMemory::~ExecutableMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace mydev::kernels
