#include "distributed/machine_engine.h"

#include <ATen/ATen.h>
#include <pthread.h>

#include <optional>
#include <utility>

#include "distributed/issue_thread.h"
#include "runtime/base/status.h"

namespace mydev {

using c10d::OpType;
using c10d::ReduceOp;
using collectives::Shard;
using collectives::SharedMemoryGroup;
using std::chrono::milliseconds;

class MachineEngine::SharedMemoryWork final : public c10d::Work {
 public:
  SharedMemoryWork(int rank, OpType type, std::vector<at::Tensor> outputs)
      : Work(rank, type),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void end(const std::exception_ptr& error) {
    finish(error);
    if (error != nullptr) {
      future_->setError(error);
    } else {
      future_->markCompleted(outputs_);
    }
  }

 private:
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

namespace {

// True if all of it is one run of bytes.
bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.is_contiguous() && tensor.device().is_cpu();
}
Shard shard_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// The reduction by a kernel of PyTorch's; none: the engine has it.
std::optional<SharedMemoryGroup::Reduce> reduction_of(const ReduceOp& op, at::ScalarType type) {
  using Kernel = at::Tensor& (*)(at::Tensor&, const at::Tensor&, const at::Tensor&);
  Kernel kernel = nullptr;
  switch (static_cast<ReduceOp::RedOpType>(op)) {
    case ReduceOp::SUM:
      kernel = [](at::Tensor& out, const at::Tensor& a, const at::Tensor& b) -> at::Tensor& {
        return at::add_out(out, a, b);
      };
      break;
    case ReduceOp::PRODUCT:
      kernel = at::mul_out;
      break;
    case ReduceOp::MIN:
      kernel = at::minimum_out;
      break;
    case ReduceOp::MAX:
      kernel = at::maximum_out;
      break;
    case ReduceOp::BAND:
      kernel = at::bitwise_and_out;
      break;
    case ReduceOp::BOR:
      kernel = at::bitwise_or_out;
      break;
    case ReduceOp::BXOR:
      kernel = at::bitwise_xor_out;
      break;
    default:
      return std::nullopt;
  }
  return [kernel, type](std::byte* out, const std::byte* first, const std::byte* second, size_t bytes) {
    const auto view = [&](const std::byte* data) {
      const auto count = static_cast<int64_t>(bytes / c10::elementSize(type));
      return at::from_blob(const_cast<std::byte*>(data), {count}, type);
    };
    at::Tensor result = view(out);
    kernel(result, view(first), view(second));
  };
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

MachineEngine::Engine MachineEngine::over(Engine engine, const c10::intrusive_ptr<c10d::Store>& store,
                                          milliseconds timeout) {
  const int rank = engine->getRank(), size = engine->getSize();
  if (size < 2) return engine;
  constexpr const char *kAddress = "shared memory", *kOpened = "shared memory opened", *kSeen = "shared memory seen",
                       *kAgreed = "shared memory agreed";
  std::unique_ptr<SharedMemoryGroup> memory;
  if (rank == 0) {
    memory = SharedMemoryGroup::create(size);
    store->set(kAddress, bytes_of(memory == nullptr ? "none" : memory->address()));
  } else {
    memory = SharedMemoryGroup::open(text_of(store->get(kAddress)), rank, size);
  }
  const int64_t opened = store->add(kOpened, memory == nullptr ? 0 : 1);
  if (store->add(kSeen, 1) == size) store->set(kAgreed, bytes_of(opened == size ? "yes" : "no"));
  if (text_of(store->get(kAgreed)) != "yes") return engine;
  return c10::make_intrusive<MachineEngine>(std::move(engine), std::move(memory), timeout);
}

MachineEngine::MachineEngine(Engine engine, std::unique_ptr<SharedMemoryGroup> memory, milliseconds timeout)
    : Backend(engine->getRank(), engine->getSize()),
      engine_(std::move(engine)),
      memory_(std::move(memory)),
      timeout_(timeout),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "mydev-memory");
}

MachineEngine::~MachineEngine() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MachineEngine::setTimeout(milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    timeout_ = timeout;
  }
  engine_->setTimeout(timeout);
}

void MachineEngine::abort() {
  memory_->abort();
  engine_->abort();
}

void MachineEngine::run() {
  const ServingScope serving;
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

MachineEngine::WorkPtr MachineEngine::start(OpType type, const char* name, milliseconds timeout, Tensors outputs,
                                            Task task) {
  auto work = c10::make_intrusive<SharedMemoryWork>(getRank(), type, std::move(outputs));
  const std::lock_guard lock(mutex_);
  const Operation operation{name, timeout.count() > 0 ? timeout : timeout_};
  waiting_.emplace_back([this, work, operation, task = std::move(task)] {
    if (failure_ == nullptr) {  // this thread alone uses it
      try {
        const RaiserBypass bypass;
        task(operation);
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    work->end(failure_);
  });
  changed_.notify_all();
  return work;
}

MachineEngine::WorkPtr MachineEngine::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (tensors.size() != 1 || !is_plain(tensors[0])) return engine_->broadcast(tensors, options);
  return start(OpType::BROADCAST, "broadcast", options.timeout, tensors,
               [this, tensor = tensors[0], root = static_cast<int>(options.rootRank)](const Operation& operation) {
                 memory_->broadcast(operation, shard_of(tensor), root);
               });
}

MachineEngine::WorkPtr MachineEngine::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  std::optional<SharedMemoryGroup::Reduce> reduce;
  if (tensors.size() == 1 && is_plain(tensors[0])) reduce = reduction_of(options.reduceOp, tensors[0].scalar_type());
  if (!reduce) return engine_->allreduce(tensors, options);
  return start(OpType::ALLREDUCE, "all_reduce", options.timeout, tensors,
               [this, tensor = tensors[0], reduce = std::move(*reduce)](const Operation& operation) {
                 memory_->all_reduce(operation, shard_of(tensor), tensor.element_size(), reduce);
               });
}

bool MachineEngine::reduces(ReduceOp::RedOpType op) {
  return reduction_of(op, at::kFloat).has_value();
}

MachineEngine::WorkPtr MachineEngine::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  std::optional<SharedMemoryGroup::Reduce> reduce;
  if (outputs.size() == 1 && inputs.size() == 1 && is_plain(outputs[0]) &&
      std::all_of(inputs[0].begin(), inputs[0].end(), is_plain)) {
    reduce = reduction_of(options.reduceOp, outputs[0].scalar_type());
  }
  if (!reduce) return engine_->reduce_scatter(outputs, inputs, options);
  return start(OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout, outputs,
               [this, output = outputs[0], list = inputs[0], reduce = std::move(*reduce)](const Operation& operation) {
                 std::vector<Shard> shards;
                 for (const Tensor& shard : list) shards.push_back(shard_of(shard));
                 memory_->reduce_scatter(operation, shards, shard_of(output), output.element_size(), reduce);
               });
}

MachineEngine::WorkPtr MachineEngine::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  const auto fits = [&](const Tensor& output) { return is_plain(output) && output.nbytes() == inputs[0].nbytes(); };
  const bool is_simple = inputs.size() == 1 && outputs.size() == 1 && is_plain(inputs[0]) &&
                         outputs[0].size() == static_cast<size_t>(getSize()) &&
                         std::all_of(outputs[0].begin(), outputs[0].end(), fits);
  if (!is_simple) return engine_->allgather(outputs, inputs, options);
  return start(OpType::ALLGATHER, "all_gather", options.timeout, outputs[0],
               [this, input = inputs[0], results = outputs[0]](const Operation& operation) {
                 std::vector<Shard> shards;
                 for (const Tensor& result : results) shards.push_back(shard_of(result));
                 memory_->all_gather(operation, shard_of(input), shards);
               });
}

MachineEngine::WorkPtr MachineEngine::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits,
                                                    const c10d::AllToAllOptions& options) {
  const auto size = static_cast<size_t>(getSize());
  const auto is_simple = [&](const Tensor& tensor, const std::vector<int64_t>& splits) {
    return is_plain(tensor) && tensor.dim() > 0 && splits.size() == size;
  };
  if (!is_simple(output, output_splits) || !is_simple(input, input_splits)) {
    return engine_->alltoall_base(output, input, output_splits, input_splits, options);
  }
  return start(OpType::ALLTOALL_BASE, "all_to_all", options.timeout, {output},
               [this, output, input, output_splits, input_splits](const Operation& operation) {
                 const auto shards_of = [](const Tensor& tensor, const std::vector<int64_t>& splits) {
                   const auto row = tensor.size(0) == 0 ? 0 : tensor.nbytes() / static_cast<size_t>(tensor.size(0));
                   std::vector<Shard> shards;
                   std::byte* data = shard_of(tensor).data;
                   for (const int64_t length : splits) {
                     shards.push_back({data, row * static_cast<size_t>(length)});
                     data += shards.back().bytes;
                   }
                   return shards;
                 };
                 memory_->all_to_all(operation, shards_of(input, input_splits), shards_of(output, output_splits));
               });
}

}  // namespace mydev
