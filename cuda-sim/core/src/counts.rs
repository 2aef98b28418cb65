//! Counts by actor, in a tree whose parts are shared.
//!
//! A clock that learns from another one takes over its parts that are newer, and copies the path to
//! what both know in part. So clocks of many actors, each after the one before, take memory for what
//! they differ in, and not for each actor that each knows.

use crate::actor::Actor;
use std::array::from_fn;
use std::sync::Arc;

const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;

#[derive(Clone, Debug)]
enum Node {
    Counts([u64; WIDTH]),
    Nodes([Option<Arc<Node>>; WIDTH]),
}

/// A node, and its height: 0 for counts.
type Part<'a> = (&'a Arc<Node>, u32);

/// The node that has the higher counts of two.
enum Joined {
    /// Both are one node.
    Same,
    /// Another one with the same counts, which is taken: the next comparison finds the same node.
    Equal,
    Mine,
    Theirs,
    /// `raised`: whether a count is higher than mine.
    New {
        node: Arc<Node>,
        raised: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Counts {
    root: Option<Arc<Node>>,
    height: u32,
}

fn digit(actor: Actor, height: u32) -> usize {
    (actor >> (BITS * height)) & (WIDTH - 1)
}

/// Returns the node of this height whose first part a node is.
fn lift(mut node: Arc<Node>, from: u32, to: u32) -> Arc<Node> {
    for _ in from..to {
        let mut nodes = Node::nodes();
        nodes[0] = Some(node);
        node = Arc::new(Node::Nodes(nodes));
    }
    node
}

/// Returns a part of a node that is at most this high.
fn child((node, own): Part, height: u32, at: usize) -> Option<Part> {
    match &**node {
        _ if own < height => (at == 0).then_some((node, own)),
        Node::Nodes(nodes) => nodes[at].as_ref().map(|node| (node, own - 1)),
        Node::Counts(_) => None,
    }
}

fn join(mine: Part, theirs: Part) -> Joined {
    if Arc::ptr_eq(mine.0, theirs.0) {
        return Joined::Same;
    }
    if let (Node::Counts(a), Node::Counts(b)) = (&**mine.0, &**theirs.0) {
        let higher: [u64; WIDTH] = from_fn(|i| a[i].max(b[i]));
        return match (higher == *a, higher == *b) {
            (true, true) => Joined::Equal,
            (true, false) => Joined::Mine,
            (false, true) => Joined::Theirs,
            (false, false) => Joined::New { node: Arc::new(Node::Counts(higher)), raised: true },
        };
    }
    let height = mine.1.max(theirs.1);
    let pair = |i| (child(mine, height, i), child(theirs, height, i));
    let parts: [Joined; WIDTH] = from_fn(|i| match pair(i) {
        (None, None) => Joined::Same,
        (Some(_), None) => Joined::Mine,
        (None, Some(_)) => Joined::Theirs,
        (Some(mine), Some(theirs)) => join(mine, theirs),
    });
    let all = |is: fn(&Joined) -> bool| parts.iter().all(is);
    if all(|part| matches!(part, Joined::Same | Joined::Mine)) {
        return Joined::Mine;
    }
    if all(|part| matches!(part, Joined::Same | Joined::Equal)) {
        return Joined::Equal;
    }
    if all(|part| matches!(part, Joined::Same | Joined::Equal | Joined::Theirs)) {
        return Joined::Theirs;
    }
    let raised =
        parts.iter().any(|part| matches!(part, Joined::Theirs | Joined::New { raised: true, .. }));
    let mut nodes = Node::nodes();
    for (i, part) in parts.into_iter().enumerate() {
        let (mine, theirs) = pair(i);
        let lifted =
            |part: Option<Part>| part.map(|(node, own)| lift(node.clone(), own, height - 1));
        nodes[i] = match part {
            Joined::New { node, .. } => Some(node),
            Joined::Same | Joined::Mine => lifted(mine),
            Joined::Equal | Joined::Theirs => lifted(theirs),
        };
    }
    Joined::New { node: Arc::new(Node::Nodes(nodes)), raised }
}

impl Node {
    fn nodes() -> [Option<Arc<Node>>; WIDTH] {
        from_fn(|_| None)
    }

    fn list(&self, from: Actor, height: u32, all: &mut Vec<(Actor, u64)>) {
        match self {
            Node::Counts(counts) => {
                let known = counts.iter().enumerate().filter(|(_, n)| **n > 0);
                all.extend(known.map(|(i, n)| (from + i, *n)));
            }
            Node::Nodes(nodes) => {
                for (i, node) in nodes.iter().enumerate() {
                    let Some(node) = node else { continue };
                    node.list(from + (i << (BITS * height)), height - 1, all);
                }
            }
        }
    }
}

impl Counts {
    pub fn of(&self, actor: Actor) -> u64 {
        if actor >> (BITS * (self.height + 1)) != 0 {
            return 0;
        }
        let (mut node, mut height) = (self.root.as_deref(), self.height);
        loop {
            match node {
                None => return 0,
                Some(Node::Counts(counts)) => return counts[digit(actor, 0)],
                Some(Node::Nodes(nodes)) => node = nodes[digit(actor, height)].as_deref(),
            }
            height -= 1;
        }
    }

    /// Raises the count of an actor.
    pub fn include(&mut self, actor: Actor, n: u64) {
        if self.of(actor) >= n {
            return;
        }
        while actor >> (BITS * (self.height + 1)) != 0 {
            self.root = self.root.take().map(|node| lift(node, 0, 1));
            self.height += 1;
        }
        let mut at = &mut self.root;
        for height in (0..=self.height).rev() {
            let node = at.get_or_insert_with(|| {
                Arc::new(match height {
                    0 => Node::Counts([0; WIDTH]),
                    _ => Node::Nodes(Node::nodes()),
                })
            });
            match Arc::make_mut(node) {
                Node::Counts(counts) => {
                    counts[digit(actor, 0)] = n;
                    return;
                }
                Node::Nodes(nodes) => at = &mut nodes[digit(actor, height)],
            }
        }
    }

    /// Raises all counts to those of others. Returns whether any was lower.
    pub fn include_all(&mut self, others: &Counts) -> bool {
        let joined = match (&self.root, &others.root) {
            (_, None) => Joined::Same,
            (None, Some(_)) => Joined::Theirs,
            (Some(mine), Some(theirs)) => join((mine, self.height), (theirs, others.height)),
        };
        match joined {
            Joined::Same | Joined::Mine => false,
            Joined::Equal => {
                *self = others.clone();
                false
            }
            Joined::Theirs => {
                *self = others.clone();
                true
            }
            Joined::New { node, raised } => {
                (self.root, self.height) = (Some(node), self.height.max(others.height));
                raised
            }
        }
    }

    /// Returns the counts that are not 0.
    pub fn list(&self) -> Vec<(Actor, u64)> {
        let mut all = Vec::new();
        self.root.iter().for_each(|node| node.list(0, self.height, &mut all));
        all
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    /// Returns the number of nodes that these have in memory.
    pub fn nodes<'a>(all: impl IntoIterator<Item = &'a Counts>) -> usize {
        let mut found = HashSet::new();
        let mut left: Vec<&Arc<Node>> =
            all.into_iter().filter_map(|one| one.root.as_ref()).collect();
        while let Some(node) = left.pop() {
            if found.insert(Arc::as_ptr(node)) {
                if let Node::Nodes(nodes) = &**node {
                    left.extend(nodes.iter().flatten());
                }
            }
        }
        found.len()
    }

    /// Compares with a map.
    #[test]
    fn random_counts() {
        let mut seed = 1u64;
        let mut next = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        for _ in 0..300 {
            let mut all: [(Counts, BTreeMap<Actor, u64>); 4] = Default::default();
            for _ in 0..60 {
                let (i, j) = (next(4), next(4));
                let (other, theirs) = all[j].clone();
                let (counts, mine) = &mut all[i];
                if next(3) == 0 {
                    let before = mine.clone();
                    for (actor, n) in &theirs {
                        let known = mine.entry(*actor).or_default();
                        *known = (*n).max(*known);
                    }
                    assert_eq!(counts.include_all(&other), *mine != before);
                } else {
                    let most = [10, 16, 40, 300, 5000][next(5)];
                    let (actor, n) = (next(most), 1 + next(9) as u64);
                    counts.include(actor, n);
                    let known = mine.entry(actor).or_default();
                    *known = n.max(*known);
                }
                let list: Vec<(Actor, u64)> = mine.iter().map(|(actor, n)| (*actor, *n)).collect();
                assert_eq!(counts.list(), list);
                let actor = next(5000);
                assert_eq!(counts.of(actor), mine.get(&actor).copied().unwrap_or(0));
                assert_eq!([counts.of(Actor::MAX), counts.of(1 << 40)], [0, 0]);
            }
        }
    }
}
