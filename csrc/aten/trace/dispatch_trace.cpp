#include "aten/trace/dispatch_trace.h"

#include <c10/core/TensorOptions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdio>
#include <mutex>
#include <string_view>

#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"

namespace mydev {

namespace detail {
// The innermost reported call of a thread.
struct TracedCall {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;  // those that took part in the call
};
thread_local const TracedCall* traced_call = nullptr;
}  // namespace detail

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using detail::TracedCall;

// kCallKey is above everything that computes, so it sees a call first. kRedispatchKey is below autograd, functorch and
// the Python modes but above every backend, so it sees the calls that they pass on.
constexpr DispatchKey kCallKey = DispatchKey::TESTING_ONLY_GenericMode;
constexpr DispatchKey kRedispatchKey = DispatchKey::Fake;

constexpr std::string_view kInfoName = "MYDEV_DISPATCH_TRACE";
constexpr c10::DebugInfoKind kInfoKind(&kInfoName);

thread_local int depth = 0;
thread_local bool writing = false;

// The innermost open trace of the thread. Ended ones that lie above it go with whatever lies above them.
DispatchTrace* open_trace() {
  auto* trace = static_cast<DispatchTrace*>(c10::ThreadLocalDebugInfo::get(kInfoKind));
  while (trace != nullptr && !trace->open()) trace = trace->outer();
  return trace;
}

void include_keys(bool included) {
  c10::impl::tls_set_dispatch_key_included(kCallKey, included);
  c10::impl::tls_set_dispatch_key_included(kRedispatchKey, included);
}

// Sets a thread-local for a scope.
template <typename T>
class Scoped {
 public:
  Scoped(T& variable, T value) : variable_(variable), previous_(variable) { variable_ = value; }
  ~Scoped() { variable_ = previous_; }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  T& variable_;
  T previous_;
};

void write_line(const DispatchTrace& trace, int nesting, const std::string& label, const std::string& text) {
  const Scoped<bool> guard(writing, true);
  trace.write(std::string(static_cast<size_t>(nesting), ' ') + label + " " + text);
}

std::string describe(const std::string& op, DispatchKey key) {
  return "op=[" + op + "], key=[" + c10::toString(key) + "]";
}

std::string describe(const c10::OperatorHandle& op, DispatchKey key) {
  return describe(c10::toString(op.operator_name()), key);
}

bool works_on_device(DispatchKeySet keys, const torch::jit::Stack& stack, size_t num_arguments) {
  if (keys.has_backend(c10::BackendComponent::PrivateUse1Bit)) return true;
  return std::any_of(stack.end() - static_cast<std::ptrdiff_t>(num_arguments), stack.end(),
                     [](const c10::IValue& value) { return value.isDevice() && value.toDevice().is_privateuseone(); });
}

// The key that a factory's BackendSelect kernel passes the call on to; Undefined if the op is no factory.
DispatchKey selected_backend(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  const auto argument = [&](const char* name) -> const c10::IValue* {
    const std::optional<int> index = schema.argumentIndexWithName(name);
    return index ? &stack[stack.size() - schema.arguments().size() + static_cast<size_t>(*index)] : nullptr;
  };
  const c10::IValue *dtype = argument("dtype"), *layout = argument("layout"), *device = argument("device");
  if (dtype == nullptr || layout == nullptr || device == nullptr) return DispatchKey::Undefined;
  return c10::computeDispatchKey(dtype->toOptional<c10::ScalarType>(), layout->toOptional<c10::Layout>(),
                                 device->toOptional<c10::Device>());
}

void on_call(const c10::OperatorHandle& op, DispatchKeySet all_keys, torch::jit::Stack* stack) {
  const DispatchKeySet keys = (all_keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kCallKey)).remove(kRedispatchKey);
  const DispatchTrace* trace = open_trace();
  if (trace == nullptr) include_keys(false);  // it was ended on another thread
  if (trace == nullptr || writing ||
      !(detail::traced_call != nullptr || trace->all_devices() ||
        works_on_device(keys, *stack, op.schema().arguments().size()))) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  const DispatchKey key = keys.highestPriorityTypeId();
  int nesting = depth + 1;
  write_line(*trace, nesting, "[call]", describe(op, key));
  if (key == DispatchKey::BackendSelect) {
    if (const DispatchKey backend = selected_backend(op.schema(), *stack); backend != DispatchKey::Undefined) {
      write_line(*trace, ++nesting, "[redispatch]", describe(op, backend));
    }
  }
  const Scoped<int> nested(depth, nesting);
  const TracedCall call{op, keys};
  const Scoped<const TracedCall*> traced(detail::traced_call, &call);
  // A call that goes straight to a backend is not passed on by anyone.
  const bool direct = (keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kRedispatchKey)) == keys;
  op.redispatchBoxed(direct ? keys : keys.add(kRedispatchKey), stack);
}

void on_redispatch(const c10::OperatorHandle& op, DispatchKeySet all_keys, torch::jit::Stack* stack) {
  const DispatchKeySet keys = all_keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kRedispatchKey);
  const DispatchTrace* trace = open_trace();
  if (trace == nullptr || writing || detail::traced_call == nullptr) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  int nesting = depth;
  if (const TracedCall& call = *detail::traced_call; call.op == op) {
    // Each key between the call's and this one passed the call on in its turn (ADInplaceOrView, Conjugate, ...).
    DispatchKeySet passed =
        (call.keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, call.keys.highestPriorityTypeId())) -
        DispatchKeySet(DispatchKeySet::FULL_AFTER, kRedispatchKey);
    for (DispatchKey key; (key = passed.highestPriorityTypeId()) != DispatchKey::Undefined;
         passed = passed.remove(key)) {
      write_line(*trace, ++nesting, "[redispatch]", describe(op, key));
    }
  }
  write_line(*trace, ++nesting, "[redispatch]", describe(op, keys.highestPriorityTypeId()));
  const Scoped<int> nested(depth, nesting);
  op.redispatchBoxed(keys, stack);
}

void on_command(void*, const CommandRecord& record) {
  if (detail::traced_call == nullptr || writing) return;
  const DispatchTrace* trace = open_trace();
  if (trace == nullptr) return;
  switch (record.kind) {
    case CommandKind::kLaunch:
      write_line(*trace, depth + 1, "[launch]", std::string("kernel=[") + record.name + "]");
      break;
    case CommandKind::kCopy:
    case CommandKind::kFill:
      write_line(*trace, depth + 1, std::string("[") + command_kind_name(record.kind) + "]",
                 std::string("what=[") + record.name + "], bytes=[" + std::to_string(record.bytes) + "]");
      break;
    case CommandKind::kHostCall:  // of an operator: a line "[redispatch] ... key=[CPU]" says so
      break;
  }
}

// The kernels stay registered once a trace has been opened; the command hook only while one is.
std::mutex mutex;  // guards the two below
int open_traces = 0;
int command_hook = 0;

void trace_opened() {
  const std::lock_guard<std::mutex> lock(mutex);
  static const auto* library = [] {
    auto* fallbacks = new std::array<torch::Library, 2>{
        torch::Library(torch::Library::IMPL, "_", kCallKey, __FILE__, __LINE__),
        torch::Library(torch::Library::IMPL, "_", kRedispatchKey, __FILE__, __LINE__)};
    (*fallbacks)[0].fallback(torch::CppFunction::makeFromBoxedFunction<&on_call>());
    (*fallbacks)[1].fallback(torch::CppFunction::makeFromBoxedFunction<&on_redispatch>());
    return fallbacks;  // never removed: another thread may be inside
  }();
  static_cast<void>(library);
  if (open_traces++ == 0) command_hook = add_command_hook({.submitted = on_command});
}

void trace_closed() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (--open_traces == 0) remove_command_hook(command_hook);
}

}  // namespace

TraceWriter stderr_trace_writer() {
  return [](const std::string& line) {
    const std::string whole = line + "\n";
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  };
}

std::shared_ptr<DispatchTrace> begin_dispatch_trace(TraceWriter writer, bool all_devices) {
  auto trace = std::make_shared<DispatchTrace>(std::move(writer), all_devices, open_trace(),
                                               c10::ThreadLocalDebugInfo::current());
  trace_opened();
  join_dispatch_trace(trace);
  return trace;
}

void join_dispatch_trace(const std::shared_ptr<DispatchTrace>& trace) {
  c10::ThreadLocalDebugInfo::_push(kInfoKind, trace);
  include_keys(true);
}

void end_dispatch_trace(const std::shared_ptr<DispatchTrace>& trace) {
  if (!trace->open()) return;
  trace->close();
  trace_closed();
  try {
    if (c10::ThreadLocalDebugInfo::_peek(kInfoKind) == trace) c10::ThreadLocalDebugInfo::_pop(kInfoKind);
  } catch (const c10::Error&) {
    // Another kind of information was pushed above the trace: it stays below that, ended.
  }
  include_keys(open_trace() != nullptr);
}

void TraceRedispatch::begin(const std::string& op, c10::DispatchKey key) {
  if (const DispatchTrace* trace = open_trace(); trace != nullptr && !writing) {
    depth_ = ++depth;
    write_line(*trace, depth_, "[redispatch]", describe(op, key));
  }
}

void TraceRedispatch::end() noexcept {
  depth = depth_ - 1;
}

}  // namespace mydev
