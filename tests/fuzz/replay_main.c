/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs a fuzz target on files, and on all files of directories. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz.h"

static int complain(const char *path)
{
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
}

static int replay_file(const char *path, size_t size)
{
        uint8_t *data = malloc(size ? size : 1); /* no larger: sanitizers watch the end */
        FILE *f = fopen(path, "rbe");
        bool read = f && data && fread(data, 1, size, f) == size;

        if (f)
                fclose(f);
        if (read)
                LLVMFuzzerTestOneInput(data, size);
        free(data);
        return read ? 1 : complain(path);
}

/* Returns how many files were run, or -1. */
static int replay(const char *path)
{
        struct stat st;
        struct dirent *entry;
        int sum = 0;
        DIR *dir;

        if (stat(path, &st) < 0)
                return complain(path);
        if (!S_ISDIR(st.st_mode))
                return replay_file(path, (size_t)st.st_size);
        dir = opendir(path);
        if (!dir)
                return complain(path);
        while (sum >= 0 && (entry = readdir(dir))) {
                char inner[4096];
                int n;

                if (entry->d_name[0] == '.')
                        continue;
                snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
                n = replay(inner);
                sum = n < 0 ? -1 : sum + n;
        }
        closedir(dir);
        return sum;
}

int main(int argc, char **argv)
{
        int sum = 0;

        for (int i = 1; i < argc; i++) {
                int n = replay(argv[i]);

                if (n <= 0) {
                        fprintf(stderr, "%s: nothing to replay\n", argv[i]);
                        return EXIT_FAILURE;
                }
                sum += n;
        }
        printf("%d inputs\n", sum);
        return sum ? EXIT_SUCCESS : EXIT_FAILURE;
}
