// Modules of cuda_stub, and launches of a function of nvrtc_stub's modules on the processor. A module exports, for each
// function f, how many parameters it has (stub_parameters_f) and a call that takes their addresses (stub_call_f), and
// StubPlace, where the running thread is.
#pragma once

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

// Each parameter has 8 bytes: it is a pointer, an integer or a double.
using StubParameters = std::vector<int64_t>;

struct StubIndex {
  unsigned x, y, z;
};
struct StubPlace {
  StubIndex thread, block, block_size, grid_size;
  void (*barrier)();
};
struct LaunchShape {
  StubIndex grid, block;
  unsigned shared_bytes;
};

class StubFunction {
 public:
  bool find(void* library, const std::string& name) {
    count_ = static_cast<const int*>(::dlsym(library, ("stub_parameters_" + name).c_str()));
    call_ = reinterpret_cast<void (*)(void**)>(::dlsym(library, ("stub_call_" + name).c_str()));
    place_ = static_cast<StubPlace*>(::dlsym(library, "stub_place"));
    return count_ != nullptr && call_ != nullptr && place_ != nullptr;
  }

  // A task that runs it with the values that the parameters have now; nothing, for a function for a GPU.
  std::function<void()> launch(const LaunchShape& shape, void** parameters) const {
    if (call_ == nullptr) return [] {};
    StubParameters values;
    for (int i = 0; i < *count_; ++i) values.push_back(*static_cast<int64_t*>(parameters[i]));
    return [this, shape, values] { run(shape, values); };
  }

 private:
  static constexpr size_t kStackBytes = 64 << 10;

  // One launch at a time: a group's memory is static in the module.
  void run(const LaunchShape& shape, StubParameters values) const {
    static std::mutex& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    std::vector<void*> addresses;
    for (int64_t& value : values) addresses.push_back(&value);
    *place_ = {{}, {}, shape.block, shape.grid, [] {}};
    const unsigned threads = shape.block.x * shape.block.y * shape.block.z;
    for (unsigned z = 0; z < shape.grid.z; ++z) {
      for (unsigned y = 0; y < shape.grid.y; ++y) {
        for (unsigned x = 0; x < shape.grid.x; ++x) {
          place_->block = {x, y, z};
          if (threads == 1) {
            call_(addresses.data());
          } else {
            run_block(threads, addresses.data());
          }
        }
      }
    }
  }

  // The threads of a block take turns: each runs up to the next barrier.
  struct Block {
    const StubFunction* function;
    void** parameters;
    ucontext_t scheduler;
    std::vector<ucontext_t> threads;
    std::vector<bool> ended;
    size_t running = 0;
  };
  static Block*& current() {
    static thread_local Block* block = nullptr;
    return block;
  }
  static void begin_thread() {
    Block& block = *current();
    block.function->call_(block.parameters);
    block.ended[block.running] = true;
    swapcontext(&block.threads[block.running], &block.scheduler);
  }
  static void wait_at_barrier() {
    Block& block = *current();
    swapcontext(&block.threads[block.running], &block.scheduler);
  }

  void run_block(unsigned threads, void** parameters) const {
    static thread_local std::vector<char> stacks;
    stacks.resize(std::max(stacks.size(), threads * kStackBytes));
    Block block{this, parameters, {}, std::vector<ucontext_t>(threads), std::vector<bool>(threads, false)};
    current() = &block;
    place_->barrier = wait_at_barrier;
    for (unsigned i = 0; i < threads; ++i) {
      getcontext(&block.threads[i]);
      block.threads[i].uc_stack.ss_sp = stacks.data() + i * kStackBytes;
      block.threads[i].uc_stack.ss_size = kStackBytes;
      block.threads[i].uc_link = &block.scheduler;
      makecontext(&block.threads[i], begin_thread, 0);
    }
    for (bool pending = true; pending;) {
      pending = false;
      for (unsigned i = 0; i < threads; ++i) {
        if (block.ended[i]) continue;
        block.running = i;
        place_->thread = {i % place_->block_size.x, i / place_->block_size.x % place_->block_size.y,
                          i / place_->block_size.x / place_->block_size.y};
        swapcontext(&block.scheduler, &block.threads[i]);
        pending |= !block.ended[i];
      }
    }
    current() = nullptr;
  }

  const int* count_ = nullptr;
  void (*call_)(void**) = nullptr;
  StubPlace* place_ = nullptr;
};

struct StubModule {
  std::string image;
  void* library = nullptr;  // of nvrtc_stub's modules
  std::map<std::string, std::unique_ptr<StubFunction>> functions;
};

inline bool is_elf(std::string_view image, unsigned machine) {
  return image.starts_with(
             "\x7f"
             "ELF") &&
         image.size() > 64 && static_cast<unsigned char>(image[18]) == machine;
}
inline constexpr unsigned kX86 = 62, kCuda = 190;

// The size of an ELF file, whose section headers are its last part.
inline size_t elf_bytes(const char* image) {
  uint64_t sections = 0;
  uint16_t entry_bytes = 0, entries = 0;
  std::memcpy(&sections, image + 40, sizeof(sections));
  std::memcpy(&entry_bytes, image + 58, sizeof(entry_bytes));
  std::memcpy(&entries, image + 60, sizeof(entries));
  uint64_t segments = 0;
  uint16_t segment_bytes = 0, num_segments = 0;
  std::memcpy(&segments, image + 32, sizeof(segments));
  std::memcpy(&segment_bytes, image + 54, sizeof(segment_bytes));
  std::memcpy(&num_segments, image + 56, sizeof(num_segments));
  return std::max(sections + uint64_t{entry_bytes} * entries, segments + uint64_t{segment_bytes} * num_segments);
}

inline void* open_library(std::string_view image) {
  char name[] = "/tmp/cuda-stub-XXXXXX";
  const int file = ::mkstemp(name);
  if (file < 0) return nullptr;
  const bool written = ::write(file, image.data(), image.size()) == static_cast<ssize_t>(image.size());
  ::close(file);
  void* library = written ? ::dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
  ::unlink(name);
  return library;
}
