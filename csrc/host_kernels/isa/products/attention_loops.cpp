// Attention by blocks of keys, with a softmax that is corrected as larger scores come.
//
// Forward: a task is some panels of queries, for which each block of keys is read once. Backward: a task is a head of
// key and value with the heads of the query that share it, whose gradients it sums in its own memory; the scores are
// computed anew from the logsumexp.
#include "host_kernels/isa/products/attention_tile.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kPanelsOfTask = 4;

int64_t blocks_of(int64_t count, int64_t block) {
  return (count + block - 1) / block;
}

// --- forward ---------------------------------------------------------------------------------------------------------

template <typename C>
int64_t forward_tasks(const AttentionProblem& p) {
  return p.batch * p.heads * blocks_of(p.queries, kPanelsOfTask * kPanel<C>);
}

// A panel of queries and what is known of their rows so far: out[value_width][kPanel] is divided by the sum in the end.
template <typename C>
struct ForwardPanel {
  C *query, *out, *largest, *sum;

  void start(int64_t value_width) const {
    std::fill_n(out, value_width * kPanel<C>, C{0});
    std::fill_n(largest, kPanel<C>, -std::numeric_limits<C>::infinity());
    std::fill_n(sum, kPanel<C>, C{0});
  }

  // Turns scores into weights, in place, and scales all sums so far to the new maximum.
  void weigh(C* scores, int64_t keys, int64_t columns, int64_t value_width) const {
    for (int64_t at = 0; at < columns; at += kLanes<C>) {
      const Vec<C> known = load(largest + at);
      Vec<C> most = known;
      for (int64_t k = 0; k < keys; ++k) most = kLarger(load(scores + k * kPanel<C> + at), most);
      // The shift of a row that is hidden so far is 0: its weights are exp(-inf - 0), which is 0.
      const Vec<C> lowest = splat(-std::numeric_limits<C>::infinity());
      const Vec<C> shift = most == lowest ? Vec<C>{} : most;
      const Vec<C> correction = exp(known - shift);
      Vec<C> total = load(sum + at) * correction;
      for (int64_t k = 0; k < keys; ++k) {
        const Vec<C> weight = exp(load(scores + k * kPanel<C> + at) - shift);
        store(scores + k * kPanel<C> + at, weight);
        total += weight;
      }
      store(largest + at, most);
      store(sum + at, total);
      for (int64_t e = 0; e < value_width; ++e) {
        store(out + e * kPanel<C> + at, load(out + e * kPanel<C> + at) * correction);
      }
    }
  }

  // Rows that are hidden throughout are 0, and their logsumexp is too.
  void finish(int64_t queries, int64_t value_width, C* logsumexp) const {
    alignas(64) C inverse[kPanel<C>];
    for (int64_t q = 0; q < kPanel<C>; ++q) {
      const C total = sum[q] == 0 ? C{1} : sum[q];
      inverse[q] = 1 / total;
      if (q < queries) {
        logsumexp[q] = (largest[q] == -std::numeric_limits<C>::infinity() ? C{0} : largest[q]) + std::log(total);
      }
    }
    for (int64_t e = 0; e < value_width; ++e) {
      for (int64_t q = 0; q < kPanel<C>; ++q) out[e * kPanel<C> + q] *= inverse[q];
    }
  }
};

template <typename C>
class Forward {
 public:
  explicit Forward(const AttentionProblem& problem, void* memory) : p_(problem) {
    Memory parts(memory);
    for (ForwardPanel<C>& panel : panels_) {
      panel = {parts.take<C>(p_.width * kPanel<C>), parts.take<C>(p_.value_width * kPanel<C>), parts.take<C>(kPanel<C>),
               parts.take<C>(kPanel<C>)};
    }
    scores_ = parts.take<C>(kKeyBlock * kPanel<C>);
    kept_ = parts.take<C>(kKeyBlock * kPanel<C>);
    keys_ = parts.take<C>(kKeyBlock * p_.width);
    values_ = parts.take<C>(kKeyBlock * p_.value_width);
    row_ = parts.take<C>(std::max(p_.width, p_.value_width));
  }

  static uint64_t bytes(const AttentionProblem& p) {
    const auto size = [](int64_t count) { return Memory::rounded<C>(count); };
    const int64_t panel = size(p.width * kPanel<C>) + size(p.value_width * kPanel<C>) + 2 * size(kPanel<C>);
    return static_cast<uint64_t>(kPanelsOfTask * panel + 2 * size(kKeyBlock * kPanel<C>) + size(kKeyBlock * p.width) +
                                 size(kKeyBlock * p.value_width) + size(std::max(p.width, p.value_width)));
  }

  void run(int64_t task) const {
    if (is_of_one_query()) return run_one(task);
    const int64_t blocks = blocks_of(p_.queries, kPanelsOfTask * kPanel<C>);
    const int64_t first = task % blocks * kPanelsOfTask * kPanel<C>;
    const int64_t head = task / blocks % p_.heads, batch = task / blocks / p_.heads;
    const int64_t end = std::min(p_.queries, first + kPanelsOfTask * kPanel<C>);
    const int64_t count = blocks_of(end - first, kPanel<C>);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = first + i * kPanel<C>;
      pack_panel(query_, batch, head, query, std::min(kPanel<C>, end - query), p_.width, p_.scale, panels_[i].query,
                 row_);
      panels_[i].start(p_.value_width);
    }
    const int64_t shared = head / (p_.heads / p_.shared_heads);
    const int64_t visible = masking_.visible(end);
    for (int64_t key = 0; key < visible; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, visible - key);
      const MatrixView<C> key_rows = key_.matrix(batch, shared, key, keys, keys_);
      const MatrixView<C> value_rows = value_.matrix(batch, shared, key, keys, values_);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t query = first + i * kPanel<C>;
        const TilePlace place{batch, head, query, std::min(kPanel<C>, end - query), key, keys};
        if (masking_.visible(query + place.queries) > key) add_block(panels_[i], place, key_rows, value_rows);
      }
    }
    for (int64_t i = 0; i < count; ++i) write(panels_[i], batch, head, first + i * kPanel<C>, end);
  }

 private:
  void add_block(const ForwardPanel<C>& panel, const TilePlace& place, MatrixView<C> keys, MatrixView<C> values) const {
    const int64_t columns = whole_vectors<C>(place.queries);
    multiply<false>(keys, panel.query, kPanel<C>, place.keys, p_.width, columns, scores_, kPanel<C>);
    masking_.apply(place, scores_);
    panel.weigh(scores_, place.keys, columns, p_.value_width);
    if (dropping_.drops()) {
      dropping_.draw(place, kept_);
      for (int64_t i = 0; i < place.keys * kPanel<C>; ++i) scores_[i] *= kept_[i];
    }
    multiply<true>(values.transposed(), scores_, kPanel<C>, p_.value_width, place.keys, columns, panel.out, kPanel<C>);
  }

  // One query, as when a model writes token by token: vectors lie along its elements, and not along queries.
  bool is_of_one_query() const {
    return p_.queries == 1 && !dropping_.drops() && p_.key->strides[3] == 1 && p_.value->strides[3] == 1 &&
           p_.value_width % kLanes<C> == 0;
  }

  void run_one(int64_t head_of_batch) const {
    const int64_t head = head_of_batch % p_.heads, batch = head_of_batch / p_.heads;
    const int64_t shared = head / (p_.heads / p_.shared_heads), visible = masking_.visible(1);
    const ForwardPanel<C>& panel = panels_[0];
    C *const query = panel.query, *const out = panel.out;
    query_.read(query_.at(batch, head, 0), 0, p_.width, query);
    for (int64_t d = 0; d < p_.width; ++d) query[d] *= static_cast<C>(p_.scale);
    std::fill_n(out, p_.value_width, C{0});
    C largest = -std::numeric_limits<C>::infinity(), sum = 0;
    for (int64_t key = 0; key < visible; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, visible - key);
      const MatrixView<C> key_rows = key_.matrix(batch, shared, key, keys, keys_);
      const MatrixView<C> value_rows = value_.matrix(batch, shared, key, keys, values_);
      for (int64_t k = 0; k < keys; ++k) scores_[k] = dot_of(query, key_rows.data + k * key_rows.row, p_.width);
      masking_.apply_to_one(batch, head, key, keys, scores_);
      C most = largest;
      for (int64_t k = 0; k < keys; ++k) most = kLarger(scores_[k], most);
      // The shift of a row that is hidden so far is 0: its weights are exp(-inf - 0), which is 0.
      const C shift = most == -std::numeric_limits<C>::infinity() ? C{0} : most;
      const C correction = exp(Vec<C>{} + (largest - shift))[0];
      sum = sum * correction + exp_shifted(scores_, shift, scores_, keys);
      largest = most;
      multiply<false>(MatrixView<C>{scores_, 1, 1}, value_rows.data, value_rows.row, 1, keys, p_.value_width, row_,
                      p_.value_width);
      for (int64_t e = 0; e < p_.value_width; ++e) out[e] = out[e] * correction + row_[e];
    }
    // A row that is hidden throughout is 0, and its logsumexp is too.
    const C total = sum == 0 ? C{1} : sum;
    for (int64_t e = 0; e < p_.value_width; ++e) out[e] /= total;
    out_.write(out, out_.at(batch, head, 0), p_.value_width);
    const C logsumexp = (largest == -std::numeric_limits<C>::infinity() ? C{0} : largest) + std::log(total);
    logsumexp_.write(&logsumexp, logsumexp_.at(batch, head, 0), 1);
  }

  void write(const ForwardPanel<C>& panel, int64_t batch, int64_t head, int64_t query, int64_t end) const {
    alignas(64) C logsumexp[kPanel<C>];
    const int64_t queries = std::min(kPanel<C>, end - query);
    panel.finish(queries, p_.value_width, logsumexp);
    unpack_panel(panel.out, out_, batch, head, query, queries, p_.value_width, 1, row_);
    for (int64_t q = 0; q < queries; ++q) logsumexp_.write(logsumexp + q, logsumexp_.at(batch, head, query + q), 1);
  }

  const AttentionProblem& p_;
  Rows<C> query_{*p_.query}, key_{*p_.key}, value_{*p_.value}, out_{*p_.out}, logsumexp_{*p_.logsumexp};
  Masking<C> masking_{p_};
  Dropping<C> dropping_{p_};
  ForwardPanel<C> panels_[kPanelsOfTask];
  C *scores_, *kept_, *keys_, *values_, *row_;
};

// --- backward --------------------------------------------------------------------------------------------------------

template <typename C>
int64_t backward_tasks(const AttentionProblem& p) {
  return p.batch * p.shared_heads;
}

template <typename C>
class Backward {
 public:
  explicit Backward(const AttentionProblem& problem, void* memory) : p_(problem) {
    Memory parts(memory);
    keys_ = parts.take<C>(key_.is_direct() ? 0 : p_.keys * p_.width);
    values_ = parts.take<C>(value_.is_direct() ? 0 : p_.keys * p_.value_width);
    key_sum_ = parts.take<C>(p_.keys * key_row_);
    value_sum_ = parts.take<C>(p_.keys * value_row_);
    query_panel_ = parts.take<C>(p_.width * kPanel<C>);
    grad_query_panel_ = parts.take<C>(p_.width * kPanel<C>);
    grad_panel_ = parts.take<C>(p_.value_width * kPanel<C>);
    query_rows_ = parts.take<C>(key_row_ * kPanel<C>);
    grad_rows_ = parts.take<C>(value_row_ * kPanel<C>);
    weights_ = parts.take<C>(kKeyBlock * kPanel<C>);
    slopes_ = parts.take<C>(kKeyBlock * kPanel<C>);
    kept_ = parts.take<C>(kKeyBlock * kPanel<C>);
    row_ = parts.take<C>(std::max(p_.width, p_.value_width));
  }

  static uint64_t bytes(const AttentionProblem& p) {
    const auto size = [](int64_t count) { return Memory::rounded<C>(count); };
    const int64_t key_row = whole_vectors<C>(p.width), value_row = whole_vectors<C>(p.value_width);
    const bool key_direct = p.key->dtype == kDtypeOf<C>, value_direct = p.value->dtype == kDtypeOf<C>;
    return static_cast<uint64_t>(
        size(key_direct ? 0 : p.keys * p.width) + size(value_direct ? 0 : p.keys * p.value_width) +
        size(p.keys * key_row) + size(p.keys * value_row) + 2 * size(p.width * kPanel<C>) +
        size(p.value_width * kPanel<C>) + size(key_row * kPanel<C>) + size(value_row * kPanel<C>) +
        3 * size(kKeyBlock * kPanel<C>) + size(std::max(p.width, p.value_width)));
  }

  void run(int64_t task) const {
    const int64_t batch = task / p_.shared_heads, shared = task % p_.shared_heads, group = p_.heads / p_.shared_heads;
    std::fill_n(key_sum_, p_.keys * key_row_, C{0});
    std::fill_n(value_sum_, p_.keys * value_row_, C{0});
    const MatrixView<C> keys = key_.matrix(batch, shared, 0, p_.keys, keys_);
    const MatrixView<C> values = value_.matrix(batch, shared, 0, p_.keys, values_);
    for (int64_t head = shared * group; head < (shared + 1) * group; ++head) {
      for (int64_t query = 0; query < p_.queries; query += kPanel<C>) {
        differentiate_panel({batch, head, query, std::min(kPanel<C>, p_.queries - query), 0, 0}, keys, values);
      }
    }
    for (int64_t k = 0; k < p_.keys; ++k) {
      grad_key_.write(key_sum_ + k * key_row_, grad_key_.at(batch, shared, k), p_.width);
      grad_value_.write(value_sum_ + k * value_row_, grad_value_.at(batch, shared, k), p_.value_width);
    }
  }

 private:
  void differentiate_panel(TilePlace place, MatrixView<C> keys, MatrixView<C> values) const {
    alignas(64) C logsumexp[kPanel<C>] = {}, delta[kPanel<C>] = {};
    pack(place, logsumexp, delta);
    const int64_t visible = masking_.visible(place.query + place.queries);
    for (place.key = 0; place.key < visible; place.key += kKeyBlock) {
      place.keys = std::min(kKeyBlock, visible - place.key);
      const MatrixView<C> key_block = keys.from_row(place.key);
      weigh(place, key_block, values.from_row(place.key), logsumexp, delta);
      multiply<true>(MatrixView<C>{weights_, kPanel<C>, 1}, grad_rows_, value_row_, place.keys, place.queries,
                     value_row_, value_sum_ + place.key * value_row_, value_row_);
      multiply<true>(MatrixView<C>{slopes_, kPanel<C>, 1}, query_rows_, key_row_, place.keys, place.queries, key_row_,
                     key_sum_ + place.key * key_row_, key_row_);
      multiply<true>(key_block.transposed(), slopes_, kPanel<C>, p_.width, place.keys, whole_vectors<C>(place.queries),
                     grad_query_panel_, kPanel<C>);
    }
    unpack_panel(grad_query_panel_, grad_query_, place.batch, place.head, place.query, place.queries, p_.width,
                 p_.scale, row_);
  }

  // The queries, scaled, and the gradients of their results, as panels and as rows; delta = sum(grad_out * out).
  void pack(const TilePlace& place, C* logsumexp, C* delta) const {
    std::fill_n(grad_query_panel_, p_.width * kPanel<C>, C{0});
    pack_panel(query_, place.batch, place.head, place.query, place.queries, p_.width, p_.scale, query_panel_, row_);
    pack_panel(grad_out_, place.batch, place.head, place.query, place.queries, p_.value_width, 1, grad_panel_, row_);
    const C scale = static_cast<C>(p_.scale);
    for (int64_t q = 0; q < place.queries; ++q) {
      C *query = query_rows_ + q * key_row_, *grad = grad_rows_ + q * value_row_;
      query_.read(query_.at(place.batch, place.head, place.query + q), 0, p_.width, query);
      for (int64_t d = 0; d < p_.width; ++d) query[d] *= scale;
      std::fill(query + p_.width, query + key_row_, C{0});
      grad_out_.read(grad_out_.at(place.batch, place.head, place.query + q), 0, p_.value_width, grad);
      std::fill(grad + p_.value_width, grad + value_row_, C{0});
      out_.read(out_.at(place.batch, place.head, place.query + q), 0, p_.value_width, row_);
      delta[q] = dot_of(row_, grad, p_.value_width);
      logsumexp_.read(logsumexp_.at(place.batch, place.head, place.query + q), 0, 1, logsumexp + q);
    }
  }

  // Computes for a tile weights_, after dropout, and slopes_, the gradient of the scores.
  void weigh(const TilePlace& place, MatrixView<C> keys, MatrixView<C> values, const C* logsumexp,
             const C* delta) const {
    const int64_t columns = whole_vectors<C>(place.queries);
    multiply<false>(keys, query_panel_, kPanel<C>, place.keys, p_.width, columns, weights_, kPanel<C>);
    masking_.apply(place, weights_);
    multiply<false>(values, grad_panel_, kPanel<C>, place.keys, p_.value_width, columns, slopes_, kPanel<C>);
    const bool drops = dropping_.drops();
    if (drops) dropping_.draw(place, kept_);
    for (int64_t q = 0; q < columns; q += kLanes<C>) {
      for (int64_t i = q; i < place.keys * kPanel<C>; i += kPanel<C>) {
        const Vec<C> weight = exp(load(weights_ + i) - load(logsumexp + q));
        const Vec<C> factor = drops ? load(kept_ + i) : splat(C{1});
        store(weights_ + i, weight * factor);
        store(slopes_ + i, weight * (load(slopes_ + i) * factor - load(delta + q)));
      }
    }
  }

  const AttentionProblem& p_;
  Rows<C> query_{*p_.query}, key_{*p_.key}, value_{*p_.value}, out_{*p_.out}, logsumexp_{*p_.logsumexp};
  Rows<C> grad_out_{*p_.grad_out}, grad_query_{*p_.grad_query}, grad_key_{*p_.grad_key}, grad_value_{*p_.grad_value};
  Masking<C> masking_{p_};
  Dropping<C> dropping_{p_};
  int64_t key_row_ = whole_vectors<C>(p_.width), value_row_ = whole_vectors<C>(p_.value_width);
  C *keys_, *values_, *key_sum_, *value_sum_, *query_panel_, *grad_query_panel_, *grad_panel_, *query_rows_,
      *grad_rows_, *weights_, *slopes_, *kept_, *row_;
};

template <typename Direction>
void run_tasks(const AttentionProblem& problem, int64_t begin, int64_t end, void* memory) {
  const Direction direction(problem, memory);
  for (int64_t task = begin; task < end; ++task) direction.run(task);
}

template <typename C>
constexpr AttentionFunctions functions() {
  return {forward_tasks<C>,  Forward<C>::bytes,  run_tasks<Forward<C>>,
          backward_tasks<C>, Backward<C>::bytes, run_tasks<Backward<C>>};
}

}  // namespace

const AttentionLoops attention_loops = {functions<float>(), functions<double>()};

}  // namespace mydev::kernels::MYDEV_ISA
