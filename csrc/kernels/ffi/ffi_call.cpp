// TYPED_FFI kernels: a frame of ours becomes XLA's call frame, and the handler of each stage is called with it.
//
// A call's memory comes from a free list of the calling thread and grows to what its kernels need, so that a call
// allocates nothing. It is on the heap, since a handler that returned a future may touch it after we have stopped
// waiting. Attributes and the state of instantiate are made once per kernel and attributes (ffi_attributes.h).
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "kernels/ffi/ffi_attributes.h"
#include "kernels/ffi/ffi_future.h"
#include "kernels/ffi/ffi_host.h"
#include "kernels/ffi/ffi_memory.h"
#include "kernels/registry/adaptor.h"
#include "kernels/registry/kernel_entry.h"
#include "kernels/registry/registered_kernel.h"
#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace mydev {

namespace ffi {
namespace {

constexpr std::array kStageNames = {"instantiate", "prepare", "initialize", "execute"};

using OwnedError = std::unique_ptr<Error>;

OwnedError make_error(mydev_code code, std::string message) {
  return std::make_unique<Error>(code, std::move(message));
}

struct TypedFfi : Adaptor {
  std::array<Handler, kNumStages> handlers{};
  std::array<const Api*, kNumStages> tables{};
  InstanceCache instances;
  std::atomic<bool> schedules{false};  // a handler was seen to use the thread pool
};

// --- a call ----------------------------------------------------------------------------------------------------------

struct Call : Pending {
  CallFrame frame{};
  ExecutionContext context;
  TaskPool pool;
  std::vector<Buffer> buffers;
  std::vector<void*> pointers;  // to the buffers: arguments, then results
  std::vector<int32_t> types;
  std::vector<int64_t> dims;
  std::shared_ptr<Instance> instance;
  std::vector<Block*> kept;  // what operands and results lie in, while nobody waits

  Call() { context.pool = &pool; }
  ~Call() override {
    context.finish();
    for (Block* block : kept) release(*block);
  }
};

// Calls that this thread has no use for at the moment.
thread_local std::vector<std::shared_ptr<Call>> idle_calls;
constexpr size_t kMaxIdleCalls = 4;  // calls nest when a handler runs another kernel

std::shared_ptr<Call> take_call() {
  if (idle_calls.empty()) return std::make_shared<Call>();
  std::shared_ptr<Call> call = std::move(idle_calls.back());
  idle_calls.pop_back();
  return call;
}

void put_back(std::shared_ptr<Call> call) {
  call->context.finish();
  call->instance.reset();
  if (idle_calls.size() < kMaxIdleCalls) idle_calls.push_back(std::move(call));
}

void prepare_frame(Call& call, size_t num_buffers, size_t num_dims) {
  if (call.buffers.size() < num_buffers) {
    call.buffers.resize(num_buffers, {sizeof(Buffer), nullptr, 0, nullptr, 0, nullptr});
    call.types.resize(num_buffers, kBuffer);
    call.pointers.clear();
    for (Buffer& buffer : call.buffers) call.pointers.push_back(&buffer);
  }
  if (call.dims.size() < num_dims) call.dims.resize(num_dims);
  call.context.run_id.store(0, std::memory_order_relaxed);
  call.context.scheduled.store(false, std::memory_order_relaxed);
}

// XLA has no absent operands: those at the end are left out.
uint32_t count_present(const mydev_frame& frame) {
  uint32_t count = frame.num_inputs;
  while (count != 0 && frame.buffers[frame.num_outputs + count - 1].dtype == MYDEV_DTYPE_INVALID) --count;
  return count;
}

void fill_frame(Call& call, const mydev_frame& frame) {
  const uint32_t num_arguments = count_present(frame);
  const uint32_t num_buffers = num_arguments + frame.num_outputs;
  size_t num_dims = 0;
  for (uint32_t i = 0; i < num_buffers; ++i) num_dims += static_cast<size_t>(frame.buffers[i].rank);
  prepare_frame(call, num_buffers, num_dims);
  int64_t* dims = call.dims.data();
  for (uint32_t i = 0; i < num_buffers; ++i) {
    const bool argument = i < num_arguments;
    const mydev_buffer& from = frame.buffers[argument ? frame.num_outputs + i : i - num_arguments];
    Buffer& to = call.buffers[i];
    to.dtype = from.dtype;
    to.data = from.dtype == MYDEV_TOKEN ? nullptr : from.data;
    to.rank = from.rank;
    to.dims = dims;
    for (int32_t d = 0; d < from.rank; ++d) *dims++ = from.sizes[d];
  }
  CallFrame& out = call.frame;
  out.struct_size = kCallFrameSize;
  out.extension_start = nullptr;
  out.context = &call.context;
  out.arguments = {sizeof(Arguments), nullptr, num_arguments, call.types.data(), call.pointers.data()};
  out.results = {sizeof(Results), nullptr, frame.num_outputs, call.types.data(), call.pointers.data() + num_arguments};
}

// --- futures ---------------------------------------------------------------------------------------------------------

std::chrono::nanoseconds future_timeout() {
  const RaiserBypass bypass;
  const double seconds = std::strtod(config_string("MYDEV_CUSTOM_CALL_TIMEOUT").c_str(), nullptr);
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

// Leaves the call to the future: the handler's thread may still use what it was given.
void cancel(Future* future, std::shared_ptr<Call> call) {
  const auto count = static_cast<size_t>(call->frame.arguments.size + call->frame.results.size);
  for (size_t i = 0; i < count; ++i) {
    if (Block* block = retain_block_with(call->context.device, call->buffers[i].data)) call->kept.push_back(block);
  }
  cancel_future(future, std::move(call));
}

// Takes the call if the handler did not finish in time.
OwnedError wait(std::shared_ptr<Call>& call, Future* future) {
  const std::chrono::nanoseconds timeout = future_timeout();
  Outcome outcome = wait_for_future(future, timeout);
  if (outcome.kind == Outcome::kDone) return std::move(outcome.error);
  if (outcome.kind == Outcome::kUnknown) {
    return make_error(MYDEV_INTERNAL, "the handler returned a future that this host did not make, or returned before");
  }
  cancel(future, std::move(call));
  return make_error(MYDEV_DEADLINE_EXCEEDED, "the handler returned a future and did not complete it within " +
                                                 std::to_string(std::chrono::duration<double>(timeout).count()) +
                                                 " s; MYDEV_CUSTOM_CALL_TIMEOUT sets the limit");
}

// --- stages ----------------------------------------------------------------------------------------------------------

// The handler's error, or what it threw.
OwnedError call_handler(Handler handler, CallFrame& frame) {
  try {
    return OwnedError(handler(&frame));
  } catch (const std::exception& thrown) {
    return make_error(MYDEV_UNKNOWN, std::string("the handler threw: ") + thrown.what());
  } catch (...) {
    return make_error(MYDEV_UNKNOWN, "the handler threw something that is no std::exception");
  }
}

// nullptr: done. The call may be gone afterwards, if there is an error.
OwnedError run_stage(const TypedFfi& ffi, std::shared_ptr<Call>& call, Stage stage) {
  CallFrame& frame = call->frame;
  frame.api = ffi.tables[stage];
  frame.stage = stage;
  frame.future = nullptr;
  call->context.stage = stage;
  OwnedError error = call_handler(ffi.handlers[stage], frame);
  if (frame.future != nullptr) [[unlikely]] {
    OwnedError late = wait(call, frame.future);
    if (error != nullptr) {
      return make_error(MYDEV_INTERNAL, "the handler returned an error together with a future: " + error->message);
    }
    error = std::move(late);
  }
  if (error != nullptr && stage != kExecute) error->message = std::string(kStageNames[stage]) + ": " + error->message;
  return error;
}

OwnedError run_stages(const TypedFfi& ffi, std::shared_ptr<Call>& call) {
  for (const Stage stage : {kPrepare, kInitialize}) {
    if (ffi.handlers[stage] == nullptr) continue;
    if (OwnedError error = run_stage(ffi, call, stage)) return error;
  }
  return run_stage(ffi, call, kExecute);
}

// With the process's threads at hand, for handlers that schedule tasks.
OwnedError run_stages_with_pool(const TypedFfi& ffi, std::shared_ptr<Call>& call) {
  const std::shared_ptr<Call> alive = call;  // its pool is ours to the end
  OwnedError error;
  std::exception_ptr thrown;
  alive->pool.run([&] {
    try {
      error = run_stages(ffi, call);
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
  return error;
}

// --- instances -------------------------------------------------------------------------------------------------------

// Calls the instantiate handler, which sees attributes and no operands.
void instantiate(const TypedFfi& ffi, Instance& instance) {
  if (ffi.handlers[kInstantiate] == nullptr) return;
  auto call = std::make_shared<Call>();
  prepare_frame(*call, 0, 0);
  fill_frame(*call, make_frame({}, 0));
  call->frame.attributes = instance.attributes.table();
  call->context.instance = &instance.state;
  if (const OwnedError error = run_stage(ffi, call, kInstantiate)) {
    instance.state.reset();
    throw mydev::Error(error->code, error->message);
  }
}

std::shared_ptr<Instance> find_instance(TypedFfi& ffi, const mydev_frame& frame) {
  return ffi.instances.get({frame.attributes, frame.num_attributes}, [&](Instance& made) { instantiate(ffi, made); });
}

// --- the entry -------------------------------------------------------------------------------------------------------

OwnedError run_call(TypedFfi& ffi, const mydev_frame& frame) {
  std::shared_ptr<Call> call = take_call();
  fill_frame(*call, frame);
  call->context.device = frame.device;
  call->context.stream = frame.stream;
  if (frame.num_attributes != 0 || ffi.handlers[kInstantiate] != nullptr) {
    call->instance = find_instance(ffi, frame);
    call->frame.attributes = call->instance->attributes.table();
    call->context.instance = &call->instance->state;
  } else {
    call->frame.attributes = kNoAttributes;
    call->context.instance = nullptr;
  }
  const bool with_pool = ffi.schedules.load(std::memory_order_relaxed);
  OwnedError error = with_pool ? run_stages_with_pool(ffi, call) : run_stages(ffi, call);
  if (call != nullptr) {
    if (call->pool.take_thrown() && error == nullptr) {
      error = make_error(MYDEV_UNKNOWN, "a task that the handler scheduled threw an exception");
    }
    if (call->context.scheduled.load(std::memory_order_relaxed)) ffi.schedules.store(true, std::memory_order_relaxed);
    put_back(std::move(call));
  }
  return error;
}

mydev_code run_typed_ffi(const mydev_frame* frame) {
  for (uint32_t i = 0; i < frame->num_outputs + frame->num_inputs; ++i) {
    if (!is_dense(frame->buffers[i])) [[unlikely]]
      return refuse_strided(*frame);
  }
  auto& ffi = static_cast<TypedFfi&>(*static_cast<const RegisteredKernel&>(*frame->kernel).adaptor);
  try {
    const OwnedError error = run_call(ffi, *frame);
    return error == nullptr ? MYDEV_OK : kernels::fail(*frame, error->code, error->message.c_str());
  } catch (const mydev::Error& error) {
    return kernels::fail(*frame, error.code(), error.what());
  } catch (const std::exception& error) {
    return kernels::fail(*frame, MYDEV_INTERNAL, error.what());
  }
}

// --- handshake -------------------------------------------------------------------------------------------------------

// Asks a handler for its version and traits, by a frame that carries the question instead of operands.
Metadata ask(const mydev_kernel& kernel, Handler handler, Stage stage) {
  Metadata metadata{};
  metadata.struct_size = sizeof(Metadata);
  metadata.api_version.struct_size = sizeof(ApiVersion);
  MetadataExtension extension{{sizeof(MetadataExtension), kMetadataExtension, nullptr}, &metadata};
  ExecutionContext context;
  CallFrame frame{};
  frame.struct_size = kCallFrameSize;
  frame.extension_start = &extension.extension;
  frame.api = &api_table(kMaxMinor);  // a handler that refuses makes an error with it
  frame.context = &context;
  frame.stage = stage;
  frame.arguments = frame.results = {sizeof(Arguments), nullptr, 0, nullptr, nullptr};
  frame.attributes = kNoAttributes;
  const OwnedError error = call_handler(handler, frame);
  MYDEV_CHECK(error == nullptr, MYDEV_FAILED_PRECONDITION, "kernel '", kernel.name, "': its ", kStageNames[stage],
              " handler refuses to be registered: ", error->message);
  const ApiVersion& version = metadata.api_version;
  MYDEV_CHECK(version.major != 0 || version.minor != 0, MYDEV_FAILED_PRECONDITION, "kernel '", kernel.name, "': its ",
              kStageNames[stage],
              " handler does not say its version of XLA's FFI: it is no typed-FFI handler, or one of ",
              "version 0.0; rebuild it with the headers of a later jaxlib");
  MYDEV_CHECK(version.major == kMajor && version.minor >= kMinMinor && version.minor <= kMaxMinor,
              MYDEV_FAILED_PRECONDITION, "kernel '", kernel.name, "': its ", kStageNames[stage],
              " handler is built with version ", version.major, ".", version.minor, " of XLA's FFI; this host knows ",
              kMajor, ".", kMinMinor, " to ", kMajor, ".", kMaxMinor,
              version.minor > kMaxMinor ? ": rebuild it with the headers of an earlier jaxlib" : "");
  return metadata;
}

}  // namespace
}  // namespace ffi

std::unique_ptr<Adaptor> adapt_typed_ffi(mydev_kernel& kernel) {
  auto typed = std::make_unique<ffi::TypedFfi>();
  const auto functions = {kernel.instantiate, kernel.prepare, kernel.initialize, kernel.execute};
  int stage = 0;
  for (const mydev_function function : functions) {
    const auto handler = reinterpret_cast<ffi::Handler>(function);
    if (handler != nullptr) {
      const ffi::Metadata metadata = ffi::ask(kernel, handler, static_cast<ffi::Stage>(stage));
      typed->handlers[static_cast<size_t>(stage)] = handler;
      typed->tables[static_cast<size_t>(stage)] = &ffi::api_table(metadata.api_version.minor);
      if (stage == ffi::kExecute && (metadata.traits & ffi::kCommandBufferCompatible) != 0) {
        kernel.traits |= MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE;
      }
    }
    ++stage;
  }
  kernel.entry = ffi::run_typed_ffi;
  return typed;
}

}  // namespace mydev
