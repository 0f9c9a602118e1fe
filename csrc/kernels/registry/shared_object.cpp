#include "kernels/registry/shared_object.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

#include "runtime/base/installed_library.h"

namespace mydev {

namespace {

constexpr const char* kStatusLibrary = "libmydev_custom_call_status.so";

template <typename T>
bool read_at(std::ifstream& in, uint64_t offset, T& value) {
  in.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof(value)));
}

thread_local constinit bool loading = false;

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;  // not checked
#endif

}  // namespace

const char* find_elf_fault(const std::string& file) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) return "it cannot be read";
  Elf64_Ehdr header;
  if (!read_at(in, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is no ELF file";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN) return "it is no 64-bit shared object";
  if (kMachine != EM_NONE && header.e_machine != kMachine) return "it is built for another processor";
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return "its program headers are damaged";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(in, header.e_phoff + i * sizeof(Elf64_Phdr), segment)) return "it is truncated";
    uint64_t end = 0;
    if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) || end > size) return "it is truncated";
  }
  return nullptr;
}

void provide_status_functions() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (::dlsym(RTLD_DEFAULT, "XlaCustomCallStatusSetFailure") != nullptr) return;
    ::dlopen(installed_library(kStatusLibrary).c_str(), RTLD_NOW | RTLD_GLOBAL);
  });
}

Loading::Loading() noexcept : outer_(std::exchange(loading, true)) {}

Loading::~Loading() {
  loading = outer_;
}

bool Loading::active() noexcept {
  return loading;
}

void* open_shared_object(const std::string& file, std::string& problem) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    problem = reason != nullptr ? reason : "no reason given";
  }
  return library;
}

}  // namespace mydev
