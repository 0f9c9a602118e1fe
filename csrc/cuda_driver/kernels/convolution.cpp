#include "cuda_driver/kernels/convolution.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda_driver/kernels/convolution_problem.h"
#include "cuda_driver/kernels/cudnn.h"

namespace mydev::cuda_driver {

namespace {

constexpr size_t kDnnWorkspaceLimit = size_t{1} << 30;

// A descriptor of cuDNN's, made and destroyed with this.
template <typename Handle>
class DnnDescriptor {
 public:
  using Create = DnnStatus (*)(Handle*);
  using Destroy = DnnStatus (*)(Handle);
  DnnDescriptor(Create create, Destroy destroy) : destroy_(destroy) {
    check(create(&handle_), "the creation of a descriptor of cuDNN");
  }
  ~DnnDescriptor() { destroy_(handle_); }
  DnnDescriptor(const DnnDescriptor&) = delete;
  DnnDescriptor& operator=(const DnnDescriptor&) = delete;

  Handle get() const noexcept { return handle_; }

 private:
  const Destroy destroy_;
  Handle handle_ = nullptr;
};

// Raises UNIMPLEMENTED for what cuDNN refuses, which declines the frame.
void decline_or_check(DnnStatus status, const char* what) {
  require(!is_refusal(status), MYDEV_UNIMPLEMENTED, "convolves by cuDNN, which does not take these operands: ", what,
          ": ", text_of(status));
  check(status, what);
}

class DnnTensorLayout : public DnnDescriptor<DnnTensor> {
 public:
  DnnTensorLayout(DnnType type, int rank, const std::array<int, 5>& sizes, const std::array<int, 5>& strides)
      : DnnDescriptor(cudnn().cudnnCreateTensorDescriptor, cudnn().cudnnDestroyTensorDescriptor) {
    decline_or_check(cudnn().cudnnSetTensorNdDescriptor(get(), type, rank, sizes.data(), strides.data()),
                     "cudnnSetTensorNdDescriptor");
  }
};

class DnnFilterLayout : public DnnDescriptor<DnnFilter> {
 public:
  DnnFilterLayout(DnnType type, int rank, const ConvolutionOperand& weights)
      : DnnDescriptor(cudnn().cudnnCreateFilterDescriptor, cudnn().cudnnDestroyFilterDescriptor) {
    const DnnFormat format = weights.channels_last ? DnnFormat::kChannelsLast : DnnFormat::kChannelsFirst;
    decline_or_check(cudnn().cudnnSetFilterNdDescriptor(get(), type, format, rank, weights.sizes.data()),
                     "cudnnSetFilterNdDescriptor");
  }
};

class DnnOperation : public DnnDescriptor<DnnConvolution> {
 public:
  explicit DnnOperation(const ConvolutionProblem& problem)
      : DnnDescriptor(cudnn().cudnnCreateConvolutionDescriptor, cudnn().cudnnDestroyConvolutionDescriptor) {
    const DnnType compute = problem.type == DnnType::kF64 ? DnnType::kF64 : DnnType::kF32;
    decline_or_check(
        cudnn().cudnnSetConvolutionNdDescriptor(get(), problem.rank - 2, problem.padding.data(), problem.stride.data(),
                                                problem.dilation.data(), kDnnCrossCorrelation, compute),
        "cudnnSetConvolutionNdDescriptor");
    check(cudnn().cudnnSetConvolutionGroupCount(get(), problem.groups), "cudnnSetConvolutionGroupCount");
    set_math(problem.type == DnnType::kF32   ? DnnMath::kFma
             : problem.type == DnnType::kF64 ? DnnMath::kDefault
                                             : DnnMath::kTensor);
  }
  void set_math(DnnMath math) {
    check(cudnn().cudnnSetConvolutionMathType(get(), math), "cudnnSetConvolutionMathType");
  }
};

// alpha or beta, which are of the type of the computation.
struct DnnScale {
  DnnScale(DnnType type, double value)
      : wide(value), narrow(static_cast<float>(value)), is_wide(type == DnnType::kF64) {}
  const void* data() const noexcept {
    return is_wide ? static_cast<const void*>(&wide) : static_cast<const void*>(&narrow);
  }
  const double wide;
  const float narrow;
  const bool is_wide;
};

std::array<int, 5> bias_sizes(const ConvolutionProblem& problem) {
  const bool adds = problem.operation != ConvolutionKernel::kBackwardWeights;
  std::array<int, 5> sizes = {1, (adds ? problem.written() : problem.destination).sizes[1], 1, 1, 1};
  return sizes;
}

std::array<int, 5> bias_strides(const ConvolutionProblem& problem) {
  return {bias_sizes(problem)[1], 1, 1, 1, 1};
}

// Tries to add and to sum a bias of one element.
bool try_bias(CudaDevice& device, DnnType type) {
  const std::array<int, 5> ones = {1, 1, 1, 1, 1};
  const DnnTensorLayout tensor(type, 4, ones, ones);
  const DnnScale one(type, 1), zero(type, 0);
  const PinnedWords words = make_pinned_words(8);  // a stream's work reaches them; they outlive the stream
  CudaStream stream(device, 0);
  const DnnHandleInUse handle(device);
  check(cudnn().cudnnSetStream(handle.get(), stream.ref()), "cudnnSetStream");
  void *const from = words.get(), *const to = words.get() + 4;
  const DnnStatus added =
      cudnn().cudnnAddTensor(handle.get(), one.data(), tensor.get(), from, one.data(), tensor.get(), to);
  const DnnStatus summed =
      cudnn().cudnnConvolutionBackwardBias(handle.get(), one.data(), tensor.get(), from, zero.data(), tensor.get(), to);
  if (!is_refusal(added)) check(added, "cudnnAddTensor");
  if (!is_refusal(summed)) check(summed, "cudnnConvolutionBackwardBias");
  return added == DnnStatus::kSuccess && summed == DnnStatus::kSuccess;
}

// Whether cuDNN takes biases of this type on the device. It does not say so beforehand, and is tried once.
bool takes_bias(CudaDevice& device, DnnType type) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::pair<int32_t, DnnType>, bool>;
  const std::lock_guard lock(mutex);
  const std::pair key(device.index(), type);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  return known.emplace(key, try_bias(device, type)).first->second;
}

// A convolution of a form of operands, and the algorithm for it.
struct ConvolutionChoice {
  ConvolutionChoice(CudaDevice& device, const ConvolutionProblem& given)
      : problem(given),
        operation(problem),
        source(problem.type, problem.rank, problem.source.sizes, problem.source.strides),
        weights(problem.type, problem.rank, problem.weights),
        destination(problem.type, problem.rank, problem.destination.sizes, problem.destination.strides),
        bias(problem.type, problem.rank, bias_sizes(problem), bias_strides(problem)) {
    if (problem.has_bias && !takes_bias(device, problem.type)) return;
    const DnnHandleInUse handle(device);
    std::array<DnnAlgorithm, 16> best{};  // some come twice, with and without tensor cores
    int count = 0;
    const DnnStatus status = ask(handle.get(), static_cast<int>(best.size()), &count, best.data());
    if (is_refusal(status)) return;
    check(status, "cudnnGetConvolution...Algorithm_v7");
    for (int i = 0; i < count && !found; ++i) found = takes(handle.get(), best[static_cast<size_t>(i)]);
    if (found && workspace_bytes != 0) scratch_bytes = workspace_bytes + kWorkspaceAlignment;
  }

  DnnStatus ask(DnnHandle handle, int requested, int* returned, DnnAlgorithm* results) const {
    const CudnnApi& api = cudnn();
    switch (problem.operation) {
      case ConvolutionKernel::kForward:
        return api.cudnnGetConvolutionForwardAlgorithm_v7(handle, source.get(), weights.get(), operation.get(),
                                                          destination.get(), requested, returned, results);
      case ConvolutionKernel::kBackwardData:
        return api.cudnnGetConvolutionBackwardDataAlgorithm_v7(
            handle, weights.get(), destination.get(), operation.get(), source.get(), requested, returned, results);
      default:
        return api.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            handle, source.get(), destination.get(), operation.get(), weights.get(), requested, returned, results);
    }
  }

  DnnStatus ask_workspace(DnnHandle handle, size_t* bytes) const {
    const CudnnApi& api = cudnn();
    switch (problem.operation) {
      case ConvolutionKernel::kForward:
        return api.cudnnGetConvolutionForwardWorkspaceSize(handle, source.get(), weights.get(), operation.get(),
                                                           destination.get(), algorithm, bytes);
      case ConvolutionKernel::kBackwardData:
        return api.cudnnGetConvolutionBackwardDataWorkspaceSize(handle, weights.get(), destination.get(),
                                                                operation.get(), source.get(), algorithm, bytes);
      default:
        return api.cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, source.get(), destination.get(),
                                                                  operation.get(), weights.get(), algorithm, bytes);
    }
  }

  // Takes the algorithm, if it sums the elements of windows, in one order, in as many bits as it should.
  bool takes(DnnHandle handle, const DnnAlgorithm& best) {
    const int last = problem.operation == ConvolutionKernel::kForward        ? kDnnLastForwardSum
                     : problem.operation == ConvolutionKernel::kBackwardData ? kDnnLastBackwardDataSum
                                                                             : kDnnLastBackwardFilterSum;
    const bool is_f32 = problem.type == DnnType::kF32;
    const bool rounds = is_f32 && (best.math == DnnMath::kTensor || best.math == DnnMath::kTensorConverting);
    if (best.status != DnnStatus::kSuccess || best.determinism != kDnnDeterministic || best.algorithm > last ||
        rounds) {
      return false;
    }
    if (!is_f32) operation.set_math(best.math);
    algorithm = best.algorithm;
    const DnnStatus status = ask_workspace(handle, &workspace_bytes);
    if (!is_refusal(status)) check(status, "cudnnGetConvolution...WorkspaceSize");
    return status == DnnStatus::kSuccess && workspace_bytes <= kDnnWorkspaceLimit;
  }

  const ConvolutionProblem problem;
  DnnOperation operation;
  DnnTensorLayout source;
  DnnFilterLayout weights;
  DnnTensorLayout destination, bias;
  bool found = false;
  int algorithm = 0;
  size_t workspace_bytes = 0;
  uint64_t scratch_bytes = 0;
};

template <ConvolutionKernel kKernel>
mydev_code plan_convolution(const mydev_frame* frame, mydev_plan* out) {
  static auto& choices = *new ChoiceCache<ConvolutionChoice>;
  return plan_choice(*frame, *out, [&] {
    const ConvolutionProblem problem = convolution_problem(*frame, kKernel);
    std::vector<int64_t> key = problem.key();
    key.push_back(frame->device);
    std::shared_ptr<ConvolutionChoice> choice = choices.find_or_make(key, [&] {
      CudaDevice& device = device_at(frame->device);
      const CurrentContext context(device);
      return std::make_shared<ConvolutionChoice>(device, problem);
    });
    require(
        choice->found, MYDEV_UNIMPLEMENTED,
        "convolves by cuDNN, which has no algorithm for these operands that sums them in one order, or takes no such "
        "bias");
    return choice;
  });
}

void enqueue_convolution(CudaStream& stream, const mydev_frame& frame) {
  const auto& choice = chosen<ConvolutionChoice>(frame);
  const ConvolutionProblem& problem = choice.problem;
  const CudnnApi& api = cudnn();
  const DnnScale one(problem.type, 1), zero(problem.type, 0);
  void* const source = frame.buffers[problem.source.buffer].data;
  void* const weights = frame.buffers[problem.weights.buffer].data;
  void* const destination = frame.buffers[problem.destination.buffer].data;
  void* const workspace = aligned_workspace(frame);
  const DnnHandleInUse handle(stream.device());
  check(api.cudnnSetStream(handle.get(), stream.ref()), "cudnnSetStream");
  switch (problem.operation) {
    case ConvolutionKernel::kForward:
      check(api.cudnnConvolutionForward(handle.get(), one.data(), choice.source.get(), source, choice.weights.get(),
                                        weights, choice.operation.get(), choice.algorithm, workspace,
                                        choice.workspace_bytes, zero.data(), choice.destination.get(), destination),
            "cudnnConvolutionForward by algorithm ", choice.algorithm);
      break;
    case ConvolutionKernel::kBackwardData:
      check(api.cudnnConvolutionBackwardData(handle.get(), one.data(), choice.weights.get(), weights,
                                             choice.destination.get(), destination, choice.operation.get(),
                                             choice.algorithm, workspace, choice.workspace_bytes, zero.data(),
                                             choice.source.get(), source),
            "cudnnConvolutionBackwardData by algorithm ", choice.algorithm);
      break;
    case ConvolutionKernel::kBackwardWeights:
      check(api.cudnnConvolutionBackwardFilter(handle.get(), one.data(), choice.source.get(), source,
                                               choice.destination.get(), destination, choice.operation.get(),
                                               choice.algorithm, workspace, choice.workspace_bytes, zero.data(),
                                               choice.weights.get(), weights),
            "cudnnConvolutionBackwardFilter by algorithm ", choice.algorithm);
      break;
  }
  if (!problem.has_bias) return;
  void* const bias = frame.buffers[problem.bias].data;
  if (problem.operation == ConvolutionKernel::kBackwardWeights) {
    check(api.cudnnConvolutionBackwardBias(handle.get(), one.data(), choice.destination.get(), destination, zero.data(),
                                           choice.bias.get(), bias),
          "cudnnConvolutionBackwardBias");
    return;
  }
  const bool forward = problem.operation == ConvolutionKernel::kForward;
  check(api.cudnnAddTensor(handle.get(), one.data(), choice.bias.get(), bias, one.data(),
                           (forward ? choice.destination : choice.source).get(), forward ? destination : source),
        "cudnnAddTensor");
}

}  // namespace

std::array<const LibraryKernel*, 3> convolution_kernels() {
  const auto make = [](const char* name, mydev_code (*plan)(const mydev_frame*, mydev_plan*)) {
    return new LibraryKernel(name, kConvolutionLimits, plan, enqueue_convolution);
  };
  static const std::array<const LibraryKernel*, 3> kernels = {
      make("mydev.convolution", plan_convolution<ConvolutionKernel::kForward>),
      make("mydev.convolution_backward_data", plan_convolution<ConvolutionKernel::kBackwardData>),
      make("mydev.convolution_backward_weights", plan_convolution<ConvolutionKernel::kBackwardWeights>)};
  return kernels;
}

}  // namespace mydev::cuda_driver
