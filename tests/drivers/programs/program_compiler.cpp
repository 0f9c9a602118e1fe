// A compiler for programs, as a device without kernels may have: its executables are interpreted here. It takes f32
// arithmetic, products of matrices, copies and fills, of any strides. An executable is the bytes that a cache keeps,
// and tables that are read from them.
//
// mydev_test_programs() counts what it did. PROGRAM_COMPILER makes it fail: "compile" when it compiles, "run" when
// an executable runs, "decline" when it is given several steps, "stale" when it is given bytes to load.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mydev/driver_extensions.h"

// The discrete driver's, under another name.
extern "C" const mydev_driver_api* discrete_driver_query(uint32_t version_major, uint32_t version_minor);

namespace {

mydev_driver_api api;  // the discrete driver's, with the extension
const char* (*error_of_driver)();
thread_local std::string message;  // of the compiler; empty after a failure of the driver

mydev_code fail(mydev_code code, std::string why) {
  message = std::move(why);
  return code;
}
const char* last_error() {
  return message.empty() ? error_of_driver() : message.c_str();
}

enum Counter { kAsked, kCompiled, kCompiledSteps, kRuns, kDestroyed, kLoaded, kNumCounters };
std::atomic<int64_t> counters[kNumCounters];

bool is_told_to(const char* what) {
  const char* told = std::getenv("PROGRAM_COMPILER");
  return told != nullptr && std::strcmp(told, what) == 0;
}

// --- what it takes ---------------------------------------------------------------------------------------------------

using Function = float (*)(float a, float b, float alpha);
const std::map<std::string_view, Function>& functions() {
  static const std::map<std::string_view, Function> all = {
      {"mydev.add", [](float a, float b, float alpha) { return a + alpha * b; }},
      {"mydev.sub", [](float a, float b, float alpha) { return a - alpha * b; }},
      {"mydev.mul", [](float a, float b, float) { return a * b; }},
      {"mydev.div", [](float a, float b, float) { return a / b; }},
      {"mydev.maximum", [](float a, float b, float) { return std::isnan(a) || a > b ? a : b; }},
      {"mydev.relu", [](float a, float, float) { return a < 0 ? 0 : a; }},
      {"mydev.neg", [](float a, float, float) { return -a; }},
      {"mydev.exp", [](float a, float, float) { return std::exp(a); }},
      {"mydev.tanh", [](float a, float, float) { return std::tanh(a); }},
  };
  return all;
}

bool is_f32(const mydev_frame& frame) {
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    if (frame.buffers[i].dtype != MYDEV_F32) return false;
  }
  return true;
}

double attribute(const mydev_frame& frame, uint32_t index) {
  if (index >= frame.num_attributes) return 1;
  const mydev_attribute& given = frame.attributes[index];
  return given.kind == MYDEV_ATTRIBUTE_FLOAT ? given.value.f : static_cast<double>(given.value.i);
}

mydev_code takes(int32_t /*device*/, const mydev_program* program, uint32_t index) {
  ++counters[kAsked];
  const mydev_step& step = *program->step(program, index);
  if (step.kind != MYDEV_STEP_LAUNCH) return MYDEV_OK;
  const mydev_frame& frame = *step.frame;
  const bool is_product = std::strcmp(step.kernel, "mydev.matmul") == 0 && frame.num_inputs == 2 &&
                          attribute(frame, 1) == 0 && frame.buffers[0].rank == 2 && frame.buffers[1].rank == 2 &&
                          frame.buffers[2].rank == 2;
  if (is_f32(frame) && (is_product || functions().count(step.kernel) != 0)) return MYDEV_OK;
  return fail(MYDEV_UNIMPLEMENTED, std::string("it has no code for ") + step.kernel + " of these operands");
}

// --- executables -----------------------------------------------------------------------------------------------------

struct View {
  uint32_t slot;
  uint64_t offset;
  float number;  // where there is no slot
  int32_t dtype;
  std::vector<int64_t> sizes, strides;
};

struct Work {
  int32_t kind;
  std::string kernel;
  std::vector<View> views;  // the result, then the operands
  float alpha;
  std::vector<char> pattern;
};

struct Compiled {
  std::vector<char> binary;
  std::vector<uint32_t> parameters, results;
  std::vector<uint64_t> bytes;               // of each slot
  std::vector<char> updated;                 // of each slot: 1 or 0
  std::vector<std::vector<char>> constants;  // of each slot
  std::vector<Work> work;
};

// Writes numbers and lists of them one behind the other, or reads them.
class Bytes {
 public:
  explicit Bytes(std::vector<char>& written) : written_(&written) {}
  Bytes(const char* data, size_t size) : rest_(data, size) {}

  template <typename T>
  void number(T& value) {
    if (written_ != nullptr) {
      const auto* bytes = reinterpret_cast<const char*>(&value);
      written_->insert(written_->end(), bytes, bytes + sizeof value);
    } else if (rest_.size() < sizeof value) {
      is_whole_ = false;
    } else {
      std::memcpy(&value, rest_.data(), sizeof value);
      rest_.remove_prefix(sizeof value);
    }
  }
  template <typename List, typename Each>
  void list(List& values, const Each& each) {
    uint64_t count = values.size();
    number(count);
    if (written_ == nullptr) values.resize(is_whole_ && count <= rest_.size() ? count : 0);
    for (auto& value : values) each(value);
  }
  template <typename List>
  void numbers(List& values) {
    list(values, [&](auto& value) { number(value); });
  }
  bool is_whole() const { return is_whole_; }

 private:
  std::vector<char>* written_ = nullptr;
  std::string_view rest_;
  bool is_whole_ = true;
};

void convert(Bytes& bytes, Compiled& compiled) {
  bytes.numbers(compiled.parameters);
  bytes.numbers(compiled.results);
  bytes.numbers(compiled.bytes);
  bytes.numbers(compiled.updated);
  bytes.list(compiled.constants, [&](std::vector<char>& constant) { bytes.numbers(constant); });
  bytes.list(compiled.work, [&](Work& work) {
    bytes.number(work.kind);
    bytes.numbers(work.kernel);
    bytes.list(work.views, [&](View& view) {
      bytes.number(view.slot);
      bytes.number(view.offset);
      bytes.number(view.number);
      bytes.number(view.dtype);
      bytes.numbers(view.sizes);
      bytes.numbers(view.strides);
    });
    bytes.number(work.alpha);
    bytes.numbers(work.pattern);
  });
}

View view_of(const mydev_step& step, size_t index) {
  const mydev_buffer& buffer = step.frame->buffers[index];
  View view{step.slots[index], step.offsets[index], 0, buffer.dtype, {}, {}};
  view.sizes.assign(buffer.sizes, buffer.sizes + buffer.rank);
  view.strides.assign(buffer.strides, buffer.strides + buffer.rank);
  if (view.slot == MYDEV_NO_SLOT) view.number = static_cast<float>(static_cast<const mydev_scalar*>(buffer.data)->f);
  return view;
}

mydev_code compile(int32_t /*device*/, const mydev_program* program, mydev_executable* out_executable,
                   uint64_t* out_scratch_bytes) {
  if (is_told_to("compile")) return fail(MYDEV_INTERNAL, "the compiler was told to fail");
  if (is_told_to("decline") && program->num_steps > 1) {
    return fail(MYDEV_UNIMPLEMENTED, "it was told to take one step at a time");
  }
  auto compiled = std::make_unique<Compiled>();
  compiled->parameters.assign(program->parameters, program->parameters + program->num_parameters);
  compiled->results.assign(program->results, program->results + program->num_results);
  for (uint32_t i = 0; i < program->num_slots; ++i) {
    const mydev_slot& slot = *program->slot(program, i);
    const auto* data = static_cast<const char*>(slot.data);
    compiled->bytes.push_back(slot.bytes);
    compiled->updated.push_back(slot.updated != 0 ? 1 : 0);
    compiled->constants.emplace_back(data, data + (data != nullptr ? slot.bytes : 0));
  }
  for (uint32_t i = 0; i < program->num_steps; ++i) {
    const mydev_step& step = *program->step(program, i);
    Work work{step.kind, step.kernel != nullptr ? step.kernel : "", {}, 1, {}};
    for (size_t v = 0; v < size_t{step.frame->num_outputs} + step.frame->num_inputs; ++v) {
      work.views.push_back(view_of(step, v));
    }
    if (step.kind == MYDEV_STEP_LAUNCH) work.alpha = static_cast<float>(attribute(*step.frame, 0));
    const auto* pattern = static_cast<const char*>(step.pattern);
    if (pattern != nullptr) work.pattern.assign(pattern, pattern + step.pattern_bytes);
    compiled->work.push_back(std::move(work));
  }
  Bytes bytes(compiled->binary);
  convert(bytes, *compiled);
  ++counters[kCompiled];
  counters[kCompiledSteps] += program->num_steps;
  *out_scratch_bytes = 64;  // which it does not touch
  *out_executable = reinterpret_cast<mydev_executable>(compiled.release());
  return MYDEV_OK;
}

// The elements of a view, in their order.
template <typename T>
struct Elements {
  T* data;
  const View& view;
  T& at(const std::vector<int64_t>& place) const {
    int64_t offset = 0;
    for (size_t d = 0; d < place.size(); ++d) offset += place[d] * view.strides[d];
    return data[offset];
  }
};

void for_each_place(const std::vector<int64_t>& sizes, const std::function<void(const std::vector<int64_t>&)>& body) {
  for (const int64_t size : sizes) {
    if (size == 0) return;
  }
  std::vector<int64_t> place(sizes.size());
  while (true) {
    body(place);
    size_t d = sizes.size();
    while (d > 0 && ++place[d - 1] == sizes[d - 1]) place[--d] = 0;
    if (d == 0) return;
  }
}

float read(const Work& work, const std::vector<char*>& memory, size_t operand, const std::vector<int64_t>& place) {
  const View& view = work.views[operand];
  if (view.slot == MYDEV_NO_SLOT) return view.number;
  return Elements<float>{reinterpret_cast<float*>(memory[view.slot] + view.offset), view}.at(place);
}

void multiply(const Work& work, const std::vector<char*>& memory) {
  const View& out = work.views[0];
  const Elements<float> result{reinterpret_cast<float*>(memory[out.slot] + out.offset), out};
  for_each_place(out.sizes, [&](const std::vector<int64_t>& place) {
    double sum = 0;
    for (int64_t k = 0; k < work.views[1].sizes[1]; ++k) {
      sum += static_cast<double>(read(work, memory, 1, {place[0], k})) * read(work, memory, 2, {k, place[1]});
    }
    result.at(place) = work.alpha * static_cast<float>(sum);
  });
}

void compute(const Work& work, const std::vector<char*>& memory) {
  if (work.kernel == "mydev.matmul") return multiply(work, memory);
  const View& out = work.views[0];
  const Elements<float> result{reinterpret_cast<float*>(memory[out.slot] + out.offset), out};
  const Function function = functions().at(work.kernel);
  for_each_place(out.sizes, [&](const std::vector<int64_t>& place) {
    const float b = work.views.size() > 2 ? read(work, memory, 2, place) : 0;
    result.at(place) = function(read(work, memory, 1, place), b, work.alpha);
  });
}

size_t size_of(int32_t dtype) {
  switch (dtype) {
    case MYDEV_C128:
      return 16;
    case MYDEV_F64:
    case MYDEV_S64:
    case MYDEV_U64:
    case MYDEV_C64:
      return 8;
    case MYDEV_F32:
    case MYDEV_S32:
    case MYDEV_U32:
      return 4;
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_S16:
    case MYDEV_U16:
      return 2;
    default:
      return 1;
  }
}

void copy(const Work& work, const std::vector<char*>& memory) {
  const View &to = work.views[0], &from = work.views[1];
  const size_t size = size_of(to.dtype);
  for_each_place(to.sizes, [&](const std::vector<int64_t>& place) {
    int64_t there = 0, here = 0;
    for (size_t d = 0; d < place.size(); ++d) {
      there += place[d] * to.strides[d];
      here += place[d] * from.strides[d];
    }
    std::memcpy(memory[to.slot] + to.offset + there * static_cast<int64_t>(size),
                memory[from.slot] + from.offset + here * static_cast<int64_t>(size), size);
  });
}

void fill(const Work& work, const std::vector<char*>& memory) {
  const View& to = work.views[0];
  size_t bytes = size_of(to.dtype);
  for (const int64_t size : to.sizes) bytes *= static_cast<size_t>(size);
  for (size_t done = 0; done < bytes; done += work.pattern.size()) {
    std::memcpy(memory[to.slot] + to.offset + done, work.pattern.data(), work.pattern.size());
  }
}

mydev_code run(mydev_stream stream, mydev_executable executable, void* const* parameters, void* const* results,
               void* scratch) {
  if (is_told_to("run")) return fail(MYDEV_INTERNAL, "the executable was told to fail");
  if (scratch == nullptr) return fail(MYDEV_INVALID_ARGUMENT, "it was given no scratch");
  message.clear();
  const auto& compiled = *reinterpret_cast<const Compiled*>(executable);
  std::vector<std::vector<char>> contents = compiled.constants;
  std::vector<char*> memory;
  for (size_t i = 0; i < contents.size(); ++i) {
    contents[i].resize(compiled.bytes[i]);
    memory.push_back(contents[i].data());
  }
  const auto copy_all = [&](const std::vector<uint32_t>& slots, void* const* addresses, mydev_copy_kind kind) {
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint32_t slot = slots[i];
      if (compiled.bytes[slot] == 0) continue;
      void* const to = kind == MYDEV_COPY_DEVICE_TO_HOST ? memory[slot] : addresses[i];
      const void* const from = kind == MYDEV_COPY_DEVICE_TO_HOST ? addresses[i] : memory[slot];
      if (const mydev_code code = api.copy(stream, to, from, compiled.bytes[slot], kind); code != MYDEV_OK) return code;
    }
    return MYDEV_OK;
  };
  if (const mydev_code code = copy_all(compiled.parameters, parameters, MYDEV_COPY_DEVICE_TO_HOST)) return code;
  for (const Work& work : compiled.work) {
    if (work.kind == MYDEV_STEP_COPY) {
      copy(work, memory);
    } else if (work.kind == MYDEV_STEP_FILL) {
      fill(work, memory);
    } else {
      compute(work, memory);
    }
  }
  ++counters[kRuns];
  std::vector<uint32_t> updated;
  std::vector<void*> places;
  for (size_t i = 0; i < compiled.parameters.size(); ++i) {
    if (!compiled.updated[compiled.parameters[i]]) continue;
    updated.push_back(compiled.parameters[i]);
    places.push_back(parameters[i]);
  }
  if (const mydev_code code = copy_all(updated, places.data(), MYDEV_COPY_HOST_TO_DEVICE)) return code;
  return copy_all(compiled.results, results, MYDEV_COPY_HOST_TO_DEVICE);
}

mydev_code destroy(mydev_executable executable) {
  delete reinterpret_cast<Compiled*>(executable);
  ++counters[kDestroyed];
  return MYDEV_OK;
}

mydev_code binary(mydev_executable executable, const void** out_data, uint64_t* out_bytes) {
  const auto& compiled = *reinterpret_cast<const Compiled*>(executable);
  *out_data = compiled.binary.data();
  *out_bytes = compiled.binary.size();
  return MYDEV_OK;
}

mydev_code load(int32_t /*device*/, const void* data, uint64_t size, mydev_executable* out_executable,
                uint64_t* out_scratch_bytes) {
  if (is_told_to("stale")) return fail(MYDEV_FAILED_PRECONDITION, "the bytes are another compiler's");
  const auto* begin = static_cast<const char*>(data);
  auto compiled = std::make_unique<Compiled>();
  compiled->binary.assign(begin, begin + size);
  Bytes bytes(begin, size);
  convert(bytes, *compiled);
  if (!bytes.is_whole()) return fail(MYDEV_INVALID_ARGUMENT, "the bytes are no executable");
  ++counters[kLoaded];
  *out_scratch_bytes = 64;
  *out_executable = reinterpret_cast<mydev_executable>(compiled.release());
  return MYDEV_OK;
}

constexpr mydev_programs_extension kTable = {
    .head = {.struct_size = sizeof(mydev_programs_extension), .version = MYDEV_PROGRAMS_VERSION, .reserved = 0},
    .takes = takes,
    .compile = compile,
    .run = run,
    .destroy = destroy,
    .binary = binary,
    .load = load,
};

}  // namespace

extern "C" [[gnu::visibility("default")]] int64_t mydev_test_programs(int32_t counter) {
  return counter >= 0 && counter < kNumCounters ? counters[counter].load() : -1;
}

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  static constexpr mydev_extension kExtension = {MYDEV_PROGRAMS_EXTENSION, MYDEV_PROGRAMS_VERSION};
  const mydev_driver_api* discrete = discrete_driver_query(version_major, version_minor);
  if (discrete == nullptr) return nullptr;
  api = *discrete;
  api.name = "compiling";
  error_of_driver = api.last_error;
  api.last_error = last_error;
  api.extensions = &kExtension;
  api.num_extensions = 1;
  api.extension = [](const char*, uint32_t) -> const void* { return &kTable; };
  return &api;
}
