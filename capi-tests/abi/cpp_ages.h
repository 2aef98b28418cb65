// What the files of different ages offer each other, without a type of the headers.
#ifndef CPP_AGES_H
#define CPP_AGES_H

#include <cstddef>

// Each function returns 0, or the line of what was found to be false.
struct age {
    std::size_t array_size;
    int (*use)();
    int (*default_stream)();
    int (*refuse)(); // throws cai::error
    int (*keep)(const void *array);
    int (*give)(int (*receiver)(const void *array));
    const void *(*code)();
};

#endif
