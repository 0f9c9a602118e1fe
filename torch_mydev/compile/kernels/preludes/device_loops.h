// The kernels' language where a group's threads are the device's. The language gives THREAD, GROUP_THREADS, GROUP_INDEX,
// LOCAL, BARRIER and FAIL.
typedef i32 index_i32;
typedef i64 index_i64;

#define ONCE if (THREAD == 0)
#define GROUP_BARRIER BARRIER
#define GROUP(function, ...) function(__VA_ARGS__, mydev_scratch)

#define CHECKS_OPEN
#define CHECKS_CLOSE
#define CHECK(condition) if (!(condition)) FAIL
#define CHECK_INDEX(index, size)                  \
  if (((index) < 0) | ((index) >= (size))) {      \
    FAIL;                                         \
    (index) = 0;                                  \
  }

#define ROWS_OPEN(T, row, rows, length, piece)                             \
  {                                                                        \
    const i64 mydev_length = (length), mydev_pieces = (mydev_length + piece - 1) / piece; \
    const i64 mydev_row = GROUP_INDEX / mydev_pieces;                      \
    const T row = (T)mydev_row;                                            \
    const i64 mydev_place = GROUP_INDEX % mydev_pieces * piece + THREAD;   \
    if (mydev_place < mydev_length && mydev_row < (i64)(rows)) {
#define ROWS_CLOSE \
  }                \
  }
#define PLACES_OPEN(T, place) {  const T place = (T)mydev_place;
#define PLACES_CLOSE }
#define LANES_OPEN(T, place) { const int lane = 0; const T place = (T)mydev_place;
#define LANES_CLOSE(most) }

#define GROUPS_OPEN(T, x, count) if (GROUP_INDEX < (i64)(count)) { const T x = (T)GROUP_INDEX;
#define GROUPS_CLOSE }
#define LOOP_OPEN(T, place, length) \
  for (i64 mydev_at = THREAD; mydev_at < (length); mydev_at += GROUP_THREADS) { const int lane = 0; const T place = (T)mydev_at;
#define LOOP_CLOSE(length) }
typedef f32 f32s;
#define VECTORS_OPEN LOOP_OPEN
#define VECTORS_CLOSE LOOP_CLOSE
#define VECTOR_AT(element) element
#define ACCUMULATOR(T, name, first, lanes) T name[1] = {first}

// Reduces the a[0] of all threads of a group, which has LANES of them. Each thread gets the result in its own a[0].
#define DEFINE_GROUP(operation, T)                                                             \
  FN void group_##operation##_##T(T* a, LOCAL f64* scratch) {                                  \
    LOCAL T* shared = (LOCAL T*)scratch;                                                       \
    const int thread = THREAD;                                                                 \
    shared[thread] = a[0];                                                                     \
    for (int reach = LANES / 2; reach > 0; reach /= 2) {                                          \
      BARRIER;                                                                                 \
      if (thread < reach) shared[thread] = operation##_##T(shared[thread], shared[thread + reach]); \
    }                                                                                          \
    BARRIER;                                                                                   \
    a[0] = shared[0];                                                                          \
    BARRIER;                                                                                   \
  }
#define DEFINE_ARG_GROUP(operation, T)                                                         \
  FN void group_##operation##_##T(T* a, i64* at, LOCAL f64* scratch) {                         \
    LOCAL i64* places = (LOCAL i64*)scratch;                                                   \
    LOCAL T* shared = (LOCAL T*)(scratch + LANES);                                             \
    const int thread = THREAD;                                                                 \
    shared[thread] = a[0];                                                                     \
    places[thread] = at[0];                                                                    \
    for (int reach = LANES / 2; reach > 0; reach /= 2) {                                          \
      BARRIER;                                                                                 \
      if (thread < reach) {                                                                     \
        T extremum = shared[thread];                                                           \
        i64 place = places[thread];                                                            \
        operation##_##T(&extremum, &place, shared[thread + reach], places[thread + reach]);      \
        shared[thread] = extremum;                                                             \
        places[thread] = place;                                                                \
      }                                                                                        \
    }                                                                                          \
    BARRIER;                                                                                   \
    a[0] = shared[0];                                                                          \
    at[0] = places[0];                                                                         \
    BARRIER;                                                                                   \
  }
#define DEFINE_WELFORD_GROUP(T)                                                                \
  FN void group_welford_##T(T* mean, T* m2, T* weight, LOCAL f64* scratch) {                   \
    LOCAL T* means = (LOCAL T*)scratch;                                                        \
    LOCAL T* squares = (LOCAL T*)(scratch + LANES);                                            \
    LOCAL T* weights = (LOCAL T*)(scratch + 2 * LANES);                                        \
    const int thread = THREAD;                                                                 \
    means[thread] = mean[0];                                                                   \
    squares[thread] = m2[0];                                                                   \
    weights[thread] = weight[0];                                                               \
    for (int reach = LANES / 2; reach > 0; reach /= 2) {                                          \
      BARRIER;                                                                                 \
      if (thread < reach) {                                                                     \
        T m = means[thread], s = squares[thread], w = weights[thread];                         \
        welford_combine_##T(&m, &s, &w, means[thread + reach], squares[thread + reach], weights[thread + reach]); \
        means[thread] = m;                                                                     \
        squares[thread] = s;                                                                   \
        weights[thread] = w;                                                                   \
      }                                                                                        \
    }                                                                                          \
    BARRIER;                                                                                   \
    mean[0] = means[0];                                                                        \
    m2[0] = squares[0];                                                                        \
    weight[0] = weights[0];                                                                    \
    BARRIER;                                                                                   \
  }
