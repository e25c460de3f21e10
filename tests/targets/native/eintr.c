/* Waits in system calls that the kernel does not restart, each for a moment, and counts those that end with EINTR.
   Says "ready"; at the end of its standard input it prints "calls interrupted". */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_long calls, interrupted;
static atomic_int ended;

static void count(long result)
{
    atomic_fetch_add(&calls, 1);
    if (result < 0 && errno == EINTR)
        atomic_fetch_add(&interrupted, 1);
}

static void *poller(void *unused)
{
    int epoll = epoll_create1(0);
    struct epoll_event event;
    while (!ended)
        count(epoll_wait(epoll, &event, 1, 1));
    close(epoll);
    return unused;
}

static void *waiter(void *unused)
{
    sigset_t set;
    struct timespec moment = {0, 300000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    while (!ended)
        count(sigtimedwait(&set, NULL, &moment));
    return unused;
}

static void *locker(void *unused)
{
    int id = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    struct timespec moment = {0, 300000};
    while (!ended)
        count(semtimedop(id, &take, 1, &moment));
    semctl(id, 0, IPC_RMID);
    return unused;
}

static void *receiver(void *unused)
{
    int pair[2];
    char byte;
    struct timeval moment = {0, 1000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    while (!ended)
        count(recv(pair[0], &byte, 1, 0));
    return unused;
}

int main(void)
{
    void *(*work[])(void *) = {poller, waiter, locker, receiver};
    pthread_t threads[4];
    sigset_t set;
    char byte;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    ended = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld\n", calls, interrupted);
    return 0;
}
