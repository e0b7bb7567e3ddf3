//! Finds many patterns in one pass (Aho–Corasick).
//!
//! Each state knows the longest pattern that ends there, so one step per byte tells which bytes belong to a match. Overlapping matches are
//! covered together: replacing only the first of two would leave the rest of the second. The crate `aho-corasick` is not used because its
//! tables are not wiped.

use zeroize::Zeroizing;

/// No state.
const NONE: u32 = u32::MAX;

/// The initial state.
pub(super) const ROOT: u32 = 0;

#[derive(Clone, Copy)]
struct Node {
    /// The state of the longest proper suffix that is a prefix of a pattern.
    fallback: u32,
    /// The length of this state's text.
    depth: u32,
    /// The length of the longest pattern that is a suffix of this state's text, or 0.
    longest: u32,
    first_child: u32,
    next_sibling: u32,
}

/// An automaton for the patterns.
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The last byte of each state's text. Wiped, since the patterns are secrets.
    bytes: Zeroizing<Vec<u8>>,
    /// The children of the root, the state in which most bytes are read.
    start: [u32; 256],
}

impl Automaton {
    /// Builds the automaton. Empty patterns are ignored.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = &'p [u8]> + Clone) -> Self {
        let room = 1 + patterns.clone().into_iter().map(<[u8]>::len).sum::<usize>();
        let root = Node { fallback: ROOT, depth: 0, longest: 0, first_child: NONE, next_sibling: NONE };
        let mut nodes = Vec::with_capacity(room);
        nodes.push(root);
        let mut automaton = Self { nodes, bytes: Zeroizing::new(Vec::with_capacity(room)), start: [ROOT; 256] };
        automaton.bytes.push(0);
        for pattern in patterns {
            automaton.insert(pattern);
        }
        automaton.link();
        automaton
    }

    /// The state after one more byte.
    pub(super) fn step(&self, mut state: u32, byte: u8) -> u32 {
        while state != ROOT {
            if let Some(child) = self.child(state, byte) {
                return child;
            }
            state = self.nodes[state as usize].fallback;
        }
        self.start[usize::from(byte)]
    }

    /// The length of the longest pattern that ends in this state, or 0.
    pub(super) fn matched(&self, state: u32) -> usize {
        self.nodes[state as usize].longest as usize
    }

    /// How many of the last bytes may be the start of a pattern.
    pub(super) fn pending(&self, state: u32) -> usize {
        self.nodes[state as usize].depth as usize
    }

    /// Whether there are no patterns.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    fn insert(&mut self, pattern: &[u8]) {
        let mut state = ROOT;
        for &byte in pattern {
            state = match self.child(state, byte) {
                Some(child) => child,
                None => self.add(state, byte),
            };
        }
        if state != ROOT {
            let node = &mut self.nodes[state as usize];
            node.longest = node.depth;
        }
    }

    fn add(&mut self, parent: u32, byte: u8) -> u32 {
        // Far below the limit: the patterns of one call have a few megabytes.
        let state = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        let Node { depth, first_child, .. } = self.nodes[parent as usize];
        self.nodes.push(Node { fallback: ROOT, depth: depth + 1, longest: 0, first_child: NONE, next_sibling: first_child });
        self.bytes.push(byte);
        self.nodes[parent as usize].first_child = state;
        if parent == ROOT {
            self.start[usize::from(byte)] = state;
        }
        state
    }

    /// A state below the root has one child per continuation of its patterns, at most 256, so a step takes constant time.
    fn child(&self, state: u32, byte: u8) -> Option<u32> {
        if state == ROOT {
            return Some(self.start[usize::from(byte)]).filter(|&child| child != ROOT);
        }
        let mut child = self.nodes[state as usize].first_child;
        while child != NONE {
            if self.bytes[child as usize] == byte {
                return Some(child);
            }
            child = self.nodes[child as usize].next_sibling;
        }
        None
    }

    /// Sets the fallbacks, in order of depth.
    fn link(&mut self) {
        let mut queue: Vec<u32> = self.children(ROOT).collect();
        let mut next = 0;
        while let Some(&state) = queue.get(next) {
            next += 1;
            let children: Vec<u32> = self.children(state).collect();
            for child in children {
                let fallback = self.step(self.nodes[state as usize].fallback, self.bytes[child as usize]);
                let longest = self.nodes[fallback as usize].longest;
                let node = &mut self.nodes[child as usize];
                node.fallback = fallback;
                node.longest = node.longest.max(longest);
                queue.push(child);
            }
        }
    }

    fn children(&self, state: u32) -> impl Iterator<Item = u32> {
        let first = self.nodes[state as usize].first_child;
        std::iter::successors(Some(first), |&child| self.nodes.get(child as usize).map(|node| node.next_sibling))
            .take_while(|&child| child != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(patterns: &[&str], text: &str) -> Vec<(usize, usize)> {
        let automaton = Automaton::new(patterns.iter().map(|pattern| pattern.as_bytes()));
        let mut state = ROOT;
        let mut found = Vec::new();
        for (index, byte) in text.bytes().enumerate() {
            state = automaton.step(state, byte);
            let length = automaton.matched(state);
            if length > 0 {
                found.push((index + 1 - length, index + 1));
            }
        }
        found
    }

    #[test]
    fn finds_patterns_inside_and_across_each_other() {
        assert_eq!(matches(&["he", "she", "his", "hers"], "ushers"), [(1, 4), (2, 6)]);
        assert_eq!(matches(&["abcd", "bc"], "abcabcd"), [(1, 3), (4, 6), (3, 7)]);
        assert_eq!(matches(&["aaaa"], "aaaaaa"), [(0, 4), (1, 5), (2, 6)]);
        assert_eq!(matches(&["x", ""], "axb"), [(1, 2)]);
        assert!(matches(&[], "axb").is_empty());
    }

    #[test]
    fn knows_how_much_is_undecided() {
        let automaton = Automaton::new([&b"abcx"[..], b"bcy"]);
        let state = b"zabc".iter().fold(ROOT, |state, &byte| automaton.step(state, byte));
        assert_eq!(automaton.pending(state), 3);
        assert_eq!(automaton.pending(automaton.step(state, b'y')), 3);
        assert_eq!(automaton.matched(automaton.step(state, b'y')), 3);
        assert_eq!(automaton.pending(automaton.step(state, b'z')), 0);
        assert!(!automaton.is_empty());
    }
}
