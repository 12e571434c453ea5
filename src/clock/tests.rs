use std::future::{pending, ready};

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::*;

fn clock() -> (Arc<Clock>, CancellationToken) {
    let (clock, stop) = (Arc::new(Clock::default()), CancellationToken::new());
    TaskTracker::new().spawn(clock.clone().run(stop.clone()));
    (clock, stop)
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_late_by_two_ticks_at_most_and_never_early() {
    let (clock, _stop) = clock();
    for rest in [0, 30, 99, 5_000] {
        sleep(Duration::from_millis(rest)).await; // at any moment between ticks, and after a sleep of the clock
        for millis in [1, 100, 250, 1_000] {
            let (limit, start) = (Duration::from_millis(millis), Instant::now());
            assert_eq!(clock.within(limit, pending::<()>()).await, Err(Late));
            let took = start.elapsed();
            assert!(took >= limit && took <= limit + 3 * TICK, "{rest} {millis}: {took:?}");
        }
    }
    assert_eq!(clock.within(Duration::ZERO, ready(1)).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_wait_each_for_its_own_time_and_leave_nothing() {
    let (clock, _stop) = clock();
    let start = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..1_000_u64 {
        let clock = clock.clone();
        calls.spawn(async move {
            let limit = Duration::from_millis(n * 7);
            let work = Duration::from_secs(3);
            let ended = clock.within(limit, sleep(work)).await;
            assert!(ended.is_ok() || limit < work, "{n} was cut early");
            assert!(ended.is_err() || limit + 3 * TICK > work, "{n} was cut late");
            ended
        });
    }
    let ended = calls.join_all().await;
    assert!(ended.iter().filter(|ended| ended.is_err()).count() > 400);
    assert!(start.elapsed() < Duration::from_secs(4));
    let waiting = clock.waiting();
    assert_eq!(waiting.free.len(), waiting.seats.len());
}

#[tokio::test(start_paused = true)]
async fn at_the_end_everybody_is_late_at_once() {
    let (clock, _stop) = clock();
    let day = Duration::from_secs(86_400);
    let waiting = TaskTracker::new();
    let waits = [day, Duration::MAX].map(|limit| {
        let clock = clock.clone();
        waiting.spawn(async move { clock.within(limit, pending::<()>()).await })
    });
    sleep(Duration::from_secs(5)).await;
    assert!(!clock.is_over());
    let start = Instant::now();
    clock.end();
    for wait in waits {
        assert_eq!(wait.await.unwrap(), Err(Late));
    }
    assert!(start.elapsed() <= TICK, "{:?}", start.elapsed());
    sleep(Duration::from_secs(5)).await;
    assert!(clock.is_over(), "and stays so");
    assert_eq!(clock.within(day, pending::<()>()).await, Err(Late));
    assert_eq!(clock.within(day, ready(1)).await, Ok(1), "what needs no time is done");
}
