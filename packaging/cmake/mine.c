#include <cai/cai.h>

#include <stdio.h>

int main(void) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    /* An empty description is refused. */
    if (cai_array_validate(&array, CAI_CHECK_LAYOUT, &error) == CAI_OK) {
        return 1;
    }
    printf("libcai %s: %s\n", cai_version(), error.message);
    return 0;
}
