/* Processes and threads that come and go: lives MODE. Says "ready".
   churn: threads come and go as fast as they can. exec: becomes `lives park` at the first line on standard input.
   fork: children come and go. park: sleeps under `outer_life`. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noipa))

static volatile long sum;

static void *short_life(void *unused)
{
    for (int i = 0; i < 20000; i++)
        sum += i;
    return unused;
}

KEPT void churn(void)
{
    pthread_t threads[8];
    for (;;) {
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, short_life, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
}

KEPT void breed(void)
{
    for (;;) {
        pid_t child = fork();
        if (!child) {
            short_life(NULL);
            _exit(7);
        }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            _exit(1);
    }
}

KEPT void outer_life(void)
{
    for (;;)
        sleep(1000);
}

KEPT void await_exec(char *self)
{
    char byte;
    while (read(0, &byte, 1) != 1)
        ;
    execl(self, self, "park", NULL);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    puts("ready");
    fflush(stdout);
    if (!strcmp(mode, "churn"))
        churn();
    else if (!strcmp(mode, "fork"))
        breed();
    else if (!strcmp(mode, "exec"))
        await_exec(argv[0]);
    outer_life();
    return 0;
}
