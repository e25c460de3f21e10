/* Counts in a shared file as fast as it can, in as many threads as asked: counts FILE THREADS. Says "ready". */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile long *counters;

static void *count(void *slot)
{
    for (;;)
        ++*(volatile long *)slot;
    return NULL;
}

int main(int argc, char **argv)
{
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    pthread_t thread;
    if (argc < 3 || ftruncate(file, 4096))
        return 1;
    counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 1; i < atoi(argv[2]); i++)
        pthread_create(&thread, NULL, count, (void *)(counters + i));
    puts("ready");
    fflush(stdout);
    count((void *)counters);
    return 0;
}
