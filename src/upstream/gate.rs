//! Which calls a server gets: so many at a time (a bulkhead), and none while it is given a rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::breaker::{Breaker, Pass};
use super::state::Unavailable;
use crate::config::{Limits, Server};
use crate::metrics::{ServerSeries, Turned};

/// Lets calls to one server in. Costs a call two additions and one look.
#[derive(Debug)]
pub(super) struct Gate {
    /// Calls in flight, those not counted for which a client is asked.
    calls: AtomicUsize,
    most: AtomicUsize,
    pub(super) breaker: Breaker,
    series: Arc<ServerSeries>,
}

/// A call's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Turn<'g> {
    gate: &'g Gate,
    pub(super) pass: Pass,
}

impl Gate {
    pub(super) fn new(server: &Server, limits: &Limits, series: Arc<ServerSeries>) -> Self {
        let most = server.care.calls.unwrap_or(limits.calls_per_server);
        let breaker = Breaker::new(server.name.clone(), server.care.breaker, series.clone());
        Self { calls: AtomicUsize::new(0), most: AtomicUsize::new(most), breaker, series }
    }

    /// The server has other settings: what was held against it holds no more.
    pub(super) fn retune(&self, server: &Server, limits: &Limits) {
        self.most.store(server.care.calls.unwrap_or(limits.calls_per_server), Ordering::Relaxed);
        self.breaker.clear(server.care.breaker);
    }

    /// Lets a call in, or says at once why not.
    pub(super) fn enter(&self) -> Result<Turn<'_>, Unavailable> {
        let most = self.most.load(Ordering::Relaxed);
        if self.calls.fetch_add(1, Ordering::Relaxed) >= most {
            self.leave();
            self.series.turned_away(Turned::Full);
            return Err(Unavailable::soon(format!(
                "is busy with {most} calls, as many as it gets at a time"
            )));
        }
        match self.breaker.ask() {
            Ok(pass) => Ok(Turn { gate: self, pass }),
            Err(why) => {
                self.leave();
                self.series.turned_away(Turned::Breaker);
                Err(why)
            }
        }
    }

    /// A call goes on that was let in before.
    pub(super) fn go_on(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A call has ended, or waits for its client.
    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// A server wants to be left alone for a while.
    pub(super) fn resting(&self) {
        self.series.turned_away(Turned::RetryAfter);
    }
}

impl Turn<'_> {
    /// Whoever has the pass gives the place back.
    pub(super) fn keep(self) -> Pass {
        let pass = self.pass;
        std::mem::forget(self);
        pass
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.leave();
        self.gate.breaker.abandoned(self.pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Reach;
    use crate::metrics::Metrics;

    fn gate(most: usize) -> Gate {
        let reach =
            Reach::Stdio(crate::config::Stdio { command: "x".into(), args: vec![], env: vec![], cwd: None });
        let limits = Limits { calls_per_server: most, ..Limits::default() };
        Gate::new(&Server::new("up", reach), &limits, Metrics::new("test").server("up"))
    }

    #[test]
    fn one_more_than_the_limit_is_told_so_at_once() {
        let gate = gate(256);
        let mut turns: Vec<_> = (0..256).map(|_| gate.enter().unwrap()).collect();
        assert!(gate.enter().unwrap_err().what.contains("256"));
        turns.pop();
        let kept = gate.enter().unwrap().keep();
        assert!(gate.enter().is_err() && !kept.probe);
        gate.leave();
        turns.push(gate.enter().unwrap());
        assert!(gate.enter().is_err());
        drop(turns);
        assert_eq!(gate.calls.load(Ordering::Relaxed), 0);
    }
}
