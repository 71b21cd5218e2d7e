//! Tasks divided among threads, with the results of one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs tasks by so many threads at most, this one among them, each begun after those before it: what each returned, up to the first that
/// failed. If tasks do not depend on each other, that is what one thread gets, however many there are.
pub fn run<K: Sync, T: Send, E: Send>(
    threads: usize,
    tasks: &[K],
    run: &(dyn Fn(&K) -> Result<T, E> + Sync),
) -> Vec<Result<T, E>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // Tasks before one that failed have begun already, and the threads that run them finish them.
            let Some(task) = tasks.get(at).filter(|_| at < failed.load(Ordering::Relaxed)) else {
                return done;
            };
            let result = run(task);
            if result.is_err() {
                failed.fetch_min(at, Ordering::Relaxed);
            }
            done.push((at, result));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        // Those that the system refuses are done without.
        let others: Vec<_> = (1..threads.min(tasks.len())).map_while(spawn).collect();
        let mut done = work();
        for other in others {
            // A panic of a thread is this one's.
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    let first_failure = done.iter().position(|(_, result)| result.is_err());
    done.truncate(first_failure.map_or(done.len(), |at| at + 1));
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn results_have_the_order_of_the_tasks_and_end_at_the_first_failure_whatever_the_number_of_threads() {
        let tasks: Vec<u32> = (0..500).collect();
        for threads in [1, 2, 7] {
            let all = run(threads, &tasks, &|&task| Ok::<_, u32>(2 * task));
            assert_eq!(all, tasks.iter().map(|task| Ok(2 * task)).collect::<Vec<_>>());
            let some = run(threads, &tasks, &|&task| if task % 100 == 77 { Err(task) } else { Ok(task) });
            assert_eq!(some, (0..77).map(Ok).chain([Err(77)]).collect::<Vec<_>>());
        }
    }
}
