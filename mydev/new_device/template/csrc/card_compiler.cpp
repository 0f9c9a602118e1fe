/* The simulated card's compiler: the machine's C++ compiler ($CXX, or c++), with a text before the source that makes
 * C++ of the card's language (card_language.h). The code runs on a queue's thread, group by group. For Linux on x86-64
 * and AArch64, whose calling conventions `call` counts on.
 */
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "card_language.h"
#include "card_queue.h"

namespace {

/* A directory that goes with its files. */
struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "acme-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path path;
};

struct Library {
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }
  void* handle = nullptr;
  CardPlace* (*place)() = nullptr; /* of the calling thread */
  std::string binary;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_error(const std::string& log) {
  const size_t at = log.find("error");
  if (at == std::string::npos) return log.substr(0, log.find('\n'));
  const size_t begin = log.rfind('\n', at) + 1;
  return log.substr(begin, log.find('\n', at) - begin);
}

/* Its parameters are integers and pointers, then doubles: wherever these come in the order of the function's, they are
 * in the same registers, and in the same order on the stack. */
constexpr size_t kMostIntegers = 80, kMostDoubles = 8;
template <size_t kIndex>
using Integer = int64_t;
template <size_t kIndex>
using Double = double;
template <size_t... kIntegers, size_t... kDoubles>
void call(void* function, const int64_t* integers, const double* doubles, std::index_sequence<kIntegers...>,
          std::index_sequence<kDoubles...>) {
  reinterpret_cast<void (*)(Integer<kIntegers>..., Double<kDoubles>...)>(function)(integers[kIntegers]...,
                                                                                   doubles[kDoubles]...);
}

struct Launch {
  std::shared_ptr<const Library> library;
  void* function = nullptr;
  mydev_geometry geometry{};
  std::array<int64_t, kMostIntegers> integers{};
  std::array<double, kMostDoubles> doubles{};
  size_t num_integers = 0, num_doubles = 0;

  mydev_code run() {
    uint32_t fault = 0;
    integers[num_integers] = reinterpret_cast<int64_t>(&fault);
    std::vector<char> local_memory(geometry.local_memory + 64);
    CardPlace& place = *library->place();
    const auto& [x_groups, y_groups, z_groups] = geometry.grid;
    const int64_t groups = int64_t{x_groups} * y_groups * z_groups;
    place = {};
    std::copy(std::begin(geometry.grid), std::end(geometry.grid), place.grid);
    std::copy(std::begin(geometry.group), std::end(geometry.group), place.group);
    place.local_memory =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(local_memory.data()) + 63) & ~uintptr_t{63});
    for (place.begin = 0; place.begin < groups; place.begin = place.end) {
      place.end = kLoops ? groups : place.begin + 1;
      place.at[0] = static_cast<uint32_t>(place.begin % x_groups);
      place.at[1] = static_cast<uint32_t>(place.begin / x_groups % y_groups);
      place.at[2] = static_cast<uint32_t>(place.begin / x_groups / y_groups);
      call(function, integers.data(), doubles.data(), std::make_index_sequence<kMostIntegers>(),
           std::make_index_sequence<kMostDoubles>());
    }
    if (fault == 0 && place.failed == 0) return MYDEV_OK;
    return card_fail(MYDEV_OUT_OF_RANGE,
                     "an index is out of bounds, an integer is divided by 0, or an assertion failed");
  }
};

mydev_code check(const mydev_geometry& geometry) {
  uint64_t threads = 1;
  bool fits = true;
  for (int d = 0; d < 3; ++d) {
    const uint32_t groups = geometry.grid[d], size = geometry.group[d];
    fits = fits && groups >= 1 && groups <= kProperties.max_grid[d] && size >= 1 && size <= kProperties.max_group[d];
    threads *= size;
  }
  if (fits && threads <= kProperties.max_group_threads && geometry.local_memory <= kMostLocalMemory) return MYDEV_OK;
  return card_fail(MYDEV_INVALID_ARGUMENT, "the launch has more groups, threads or local memory than the card");
}

}  // namespace

struct card_code {
  std::shared_ptr<Library> library;
};

const char* card_language(void) {
  return kLanguage;
}

void card_compiler_properties(mydev_compiler_properties* out) {
  const size_t size = out->struct_size; /* the caller's */
  std::memcpy(out, &kProperties, std::min(size, sizeof(kProperties)));
  out->struct_size = size;
}

mydev_code card_load(const void* binary, uint64_t bytes, card_code** out_code) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path / "code.so";
  auto library = std::make_shared<Library>();
  library->binary.assign(static_cast<const char*>(binary), bytes);
  std::ofstream(path, std::ios::binary) << library->binary;
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return card_fail(MYDEV_FAILED_PRECONDITION, "no code for this card");
  library->place = reinterpret_cast<CardPlace* (*)()>(dlsym(library->handle, "card_place"));
  if (library->place == nullptr) return card_fail(MYDEV_FAILED_PRECONDITION, "no code for this card");
  *out_code = new card_code{std::move(library)};
  return MYDEV_OK;
}

mydev_code card_compile(const char* source, uint64_t bytes, card_code** out_code) {
  const TemporaryDirectory directory;
  const std::string base = (directory.path / "code").string();
  std::ofstream(base + ".cpp") << kPlaceText << kPrelude << std::string(source, bytes) << '\n';
  const char* compiler = std::getenv("CXX");
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") + " " + kOptions + " -o " + base +
                              ".so " + base + ".cpp 2> " + base + ".log";
  if (std::system(command.c_str()) != 0) {
    const std::string problem = first_error(text_of(base + ".log"));
    return card_fail(MYDEV_INVALID_ARGUMENT, "the source does not compile: " + problem);
  }
  const std::string binary = text_of(base + ".so");
  return card_load(binary.data(), binary.size(), out_code);
}

void card_code_binary(card_code* code, const void** out_data, uint64_t* out_bytes) {
  *out_data = code->library->binary.data();
  *out_bytes = code->library->binary.size();
}

void card_code_release(card_code* code) {
  delete code;
}

void* card_code_function(card_code* code, const char* name) {
  return dlsym(code->library->handle, name);
}

mydev_code card_launch_function(card_queue* queue, card_code* code, void* function, const mydev_frame* frame,
                                const mydev_geometry* geometry) {
  if (const mydev_code refused = check(*geometry); refused != MYDEV_OK) return refused;
  auto launch = std::make_shared<Launch>();
  launch->library = code->library;
  launch->function = function;
  launch->geometry = *geometry;
  const uint32_t buffers = frame->num_outputs + frame->num_inputs;
  if (2 * buffers + frame->num_attributes >= kMostIntegers) {
    return card_fail(MYDEV_UNIMPLEMENTED, "the card takes fewer operands");
  }
  char* const base = queue->memory.base();
  for (const mydev_buffer* buffer = frame->buffers; buffer != frame->buffers + buffers; ++buffer) {
    auto* const data = static_cast<char*>(queue->memory.translate(buffer->data));
    launch->integers[launch->num_integers++] = reinterpret_cast<int64_t>(kOffsets ? base : data);
    if (kOffsets) launch->integers[launch->num_integers++] = data == nullptr ? 0 : data - base;
  }
  for (const mydev_attribute* number = frame->attributes; number != frame->attributes + frame->num_attributes;
       ++number) {
    if (number->kind == MYDEV_ATTRIBUTE_INT) {
      launch->integers[launch->num_integers++] = number->value.i;
    } else if (launch->num_doubles < kMostDoubles) {
      launch->doubles[launch->num_doubles++] = number->value.f;
    } else {
      return card_fail(MYDEV_UNIMPLEMENTED, "the card takes at most 8 doubles");
    }
  }
  return queue->run([launch] { return launch->run(); });
}
