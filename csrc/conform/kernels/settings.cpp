#include "conform/kernels/settings.h"

#include <cstdlib>
#include <string>

namespace mydev::conform {

namespace {

enum class Frames { kAll, kWhole, kWithAbsent };  // kWhole: no operand is absent; kWithAbsent: some are
struct Row {
  const char *kernel, *settings;
  Frames frames = Frames::kAll;
};

constexpr Row kRows[] = {
    {"mydev.index_select", "index<d"},
    {"mydev.gather", "index<d dim=0"},
    {"mydev.gather", "index<d dim=1 rank=2"},
    {"mydev.index_copy", "index<d"},
    {"mydev.index_add", "index<d"},
    {"mydev.scatter", "s=2 index<d dim=0"},
    {"mydev.scatter", "s=2 index<d dim=1 rank=2"},
    {"mydev.scatter_add", "s=2 index<d dim=0"},
    {"mydev.scatter_add", "s=2 index<d dim=1 rank=2"},
    {"mydev.gather_slices", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.gather_slices", "k=1 w=2 d=5 index:-7..6 dims=0 from_end=1"},
    {"mydev.scatter_slices", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.scatter_slices", "k=1 w=2 d=5 index:-7..6 dims=0 from_end=1"},
    {"mydev.scatter_slices_add", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.scatter_slices_mul", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.scatter_slices_max", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.scatter_slices_min", "k=1 w=2 d=5 index:-2..6 dims=0"},
    {"mydev.flat_index", "index:-5..4 outer:0..99 size=5"},
    {"mydev.triangle", "diagonal=0"},
    {"mydev.triangle", "diagonal=-1"},
    {"mydev.triangle", "diagonal=2"},
    {"mydev.cumsum", "in:-3..3 dim=0"},
    {"mydev.cumsum", "in:-3..3 dim=1 rank=2"},
    {"mydev.cumprod", "in:-1..1 dim=0"},
    {"mydev.cumprod", "in:-1..1 dim=1 rank=2"},
    {"mydev.cummax", "in:-9..9 dim=0"},
    {"mydev.cummax", "in:-9..9 dim=1 rank=2"},
    {"mydev.cummin", "in:-9..9 dim=0"},
    {"mydev.cummin", "in:-9..9 dim=1 rank=2"},
    {"mydev.logcumsumexp", "in:-9..9 dim=0"},
    {"mydev.logcumsumexp", "in:-9..9 dim=1 rank=2"},
    {"mydev.rng_bit_generator", "w=2 threefry=0"},
    {"mydev.rng_bit_generator", "w=3 threefry=0"},
    {"mydev.rng_bit_generator", "w=2 threefry=1"},
    {"mydev.rng_bit_generator", "w=3 threefry=1"},
    {"mydev.rng_bit_generator", "w=2 threefry=1 n=5 i=1"},
    {"mydev.isin", ""},
    {"mydev.isin", "m=0"},
    {"mydev.matmul", ""},
    {"mydev.matmul", "k=0"},
    {"mydev.matmul", "beta=0"},
    {"mydev.matmul", "alpha=0"},
    {"mydev.matmul", "m=130 n=67 k=35"},
    {"mydev.matmul", "m=5 n=70 k=1100"},
    {"mydev.attention", "h=4 g=2 dropout=0"},
    {"mydev.attention", "h=4 g=2 s=70 l=65 seed=3 offset=5"},
    {"mydev.attention_backward", "h=4 g=2 dropout=0 logsumexp:4..5 mask:-1..1"},
    {"mydev.attention_backward", "h=4 g=2 s=70 l=65 logsumexp:4..5 mask:-1..1", Frames::kWhole},
    {"mydev.embedding_backward", "index<v padding_idx=1"},
    {"mydev.embedding_backward", "index<v n=0 padding_idx=1"},
    {"mydev.embedding_backward", "index<v padding_idx=-1"},
    {"mydev.copy", "in:0..4"},
    {"mydev.sort", "d=9 k=9"},
    {"mydev.sort", "d=200 k=5"},
    {"mydev.topk", "d=9 k=4"},
    {"mydev.topk", "d=200 k=2"},
    {"mydev.nll_loss", "target<c weight:1..2 ignore_index=1"},
    {"mydev.nll_loss", "target<c weight:1..2 ignore_index=-100"},
    {"mydev.nll_loss_backward", "target<c weight:1..2 total_weight:1..2 ignore_index=1"},
    {"mydev.batch_norm_inference", "running_var:0.5..2"},
    {"mydev.batch_norm_backward", "invstd:0.5..2"},
    {"mydev.batch_norm_backward", "s=130 invstd:0.5..2"},
    {"mydev.batch_norm_training", ""},
    {"mydev.batch_norm_training", "s=130"},
    {"mydev.fused_sgd", "grad_scale:1..2 found_inf:0..0", Frames::kWhole},
    {"mydev.fused_sgd", "grad_scale:1..2 found_inf:1..1", Frames::kWhole},
    {"mydev.fused_sgd", "momentum=0", Frames::kWithAbsent},
    {"mydev.fused_adam", "exp_avg_sqs:0..4 max_exp_avg_sqs:0..4 steps:1..9 grad_scale:1..2 found_inf:0..0"},
    {"mydev.fused_adam", "exp_avg_sqs:0..4 max_exp_avg_sqs:0..4 steps:1..9 grad_scale:1..2 found_inf:1..1"},
    {"mydev.convolution", "c=4 o=6 u=5 k=3 groups=1 stride=1 padding=0 dilation=1"},
    {"mydev.convolution", "c=4 o=6 u=7 k=3 groups=2 stride=2 padding=1 dilation=2"},
    {"mydev.convolution", "c=6 o=36 u=5 k=3 groups=2 stride=1 padding=1 dilation=1"},
    {"mydev.convolution_backward_data", "c=4 o=6 u=5 k=3 groups=1 stride=1 padding=0 dilation=1"},
    {"mydev.convolution_backward_data", "c=4 o=6 u=7 k=3 groups=2 stride=2 padding=1 dilation=2"},
    {"mydev.convolution_backward_data", "c=36 o=6 u=5 k=3 groups=2 stride=2 padding=1 dilation=1"},
    {"mydev.convolution_backward_weights", "c=4 o=6 u=5 k=3 groups=1 stride=1 padding=0 dilation=1"},
    {"mydev.convolution_backward_weights", "c=4 o=6 u=7 k=3 groups=2 stride=2 padding=1 dilation=2"},
    {"mydev.convolution_backward_weights", "c=6 o=36 u=14 k=3 groups=2 stride=1 padding=1 dilation=1"},
    {"mydev.layer_norm_backward", ""},
    {"mydev.layer_norm_backward", "m=70"},
    {"mydev.rms_norm_backward", ""},
    {"mydev.rms_norm_backward", "m=70"},
    {"mydev.max_pool2d", "h=5 w=6 p=3 q=4 kernel=3,3 stride=1,1 padding=0,0 dilation=1,1"},
    {"mydev.max_pool2d", "h=8 w=9 p=4 q=3 kernel=3,2 stride=2,3 padding=1,1 dilation=1,2"},
    {"mydev.max_pool2d_backward", "h=5 w=6 p=3 q=4 indices<h*w"},
    {"mydev.avg_pool2d", "h=5 w=6 p=3 q=4 kernel=3,3 stride=1,1 padding=0,0 divisor=0"},
    {"mydev.avg_pool2d", "h=8 w=9 p=4 q=3 kernel=3,2 stride=2,3 padding=1,1 divisor=5"},
    {"mydev.avg_pool2d", "h=8 w=9 p=4 q=3 kernel=3,2 stride=2,3 padding=1,1 divisor=0"},
    {"mydev.avg_pool2d_backward", "h=5 w=6 p=3 q=4 kernel=3,3 stride=1,1 padding=0,0 divisor=0"},
    {"mydev.avg_pool2d_backward", "h=8 w=9 p=4 q=3 kernel=3,2 stride=2,3 padding=1,1 divisor=5"},
    {"mydev.avg_pool2d_backward", "h=8 w=9 p=4 q=3 kernel=3,2 stride=2,3 padding=1,1 divisor=0"},
    {"mydev.adaptive_avg_pool2d", "h=7 w=8 p=3 q=5"},
    {"mydev.adaptive_avg_pool2d_backward", "h=7 w=8 p=3 q=5"},
};

double number(std::string_view text) {
  return std::strtod(std::string(text).c_str(), nullptr);
}

}  // namespace

std::vector<std::string_view> Settings::split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::string_view Settings::setting(std::string_view name, char sign) const {
  for (const std::string_view word : split(text_, ' ')) {
    if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == sign) {
      return word.substr(name.size() + 1);
    }
  }
  return {};
}

std::vector<double> Settings::values(std::string_view name) const {
  std::vector<double> numbers;
  for (const std::string_view part : split(setting(name, '='), ',')) numbers.push_back(number(part));
  return numbers;
}

OperandBounds Settings::range_of(std::string_view text) {
  const size_t dots = text.find("..");
  return {number(text.substr(0, dots)), number(text.substr(dots + 2))};
}

std::vector<Settings> settings_of(const KernelContract& contract, const Variation& variation) {
  const Frames others = variation.absent ? Frames::kWhole : Frames::kWithAbsent;
  // Whether a convolution's padding is 0 or is left out is open, and an infinity that meets it shows which.
  const bool unpadded = variation.content == Content::kInfinities && contract.name.starts_with("mydev.convolution");
  std::vector<Settings> found;
  for (const Row& row : kRows) {
    if (contract.name != row.kernel || row.frames == others) continue;
    if (unpadded && std::string_view(row.settings).find("padding=0") == std::string_view::npos) continue;
    found.emplace_back(row.settings);
  }
  if (found.empty()) found.emplace_back("");
  return found;
}

}  // namespace mydev::conform
