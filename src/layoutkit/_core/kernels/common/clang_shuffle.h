/* GCC's __builtin_shuffle for clang, one lane at a time; meson.build includes it before every source. */
#define LK_COUNT_(a, b, c, n, ...) n
#define __builtin_shuffle(...) LK_COUNT_(__VA_ARGS__, LK_SHUFFLE_TWO, LK_SHUFFLE_ONE, )(__VA_ARGS__)
#define LK_SHUFFLE_ONE(x, order) LK_SHUFFLE_TWO(x, x, order)
#define LK_SHUFFLE_TWO(x, y, order) \
    ({ \
        __typeof__(+(x)) x_ = (x), y_ = (y), out_ = x_; \
        __typeof__(order) order_ = (order); \
        const int lanes_ = sizeof order_ / sizeof order_[0]; \
        for (int lane_ = 0; lane_ < lanes_; lane_++) { \
            const int from_ = (int)order_[lane_] & (2 * lanes_ - 1); \
            out_[lane_] = from_ < lanes_ ? x_[from_] : y_[from_ - lanes_]; \
        } \
        out_; \
    })
