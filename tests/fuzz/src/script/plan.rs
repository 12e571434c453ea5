//! What everybody does, drawn from bytes.

/// Numbers that look random and come again with the same seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()[0]
    }
}

/// Choices, a byte each. Once the bytes are used up, always the first one.
#[derive(Debug)]
pub(super) struct Draw<'i>(std::slice::Iter<'i, u8>);

impl<'i> Draw<'i> {
    pub(super) fn new(input: &'i [u8]) -> Self {
        Self(input.iter())
    }

    fn below(&mut self, end: u8) -> u8 {
        self.0.next().copied().unwrap_or_default().checked_rem(end).unwrap_or_default()
    }
}

/// What everybody does.
#[derive(Debug)]
pub(super) struct Plan {
    /// Of each client.
    pub(super) clients: Vec<Vec<Step>>,
}

/// One thing that a client does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Calls the tool of the server that behaves.
    Good,
    /// Calls the tool of the other one, which answers in this way.
    Odd(u8),
    /// The same, and cancels it after so many milliseconds.
    Cancelled(u8, u64),
    /// The same, and hangs up after so many milliseconds.
    HangsUp(u8, u64),
    /// Two calls at once, of which the second has the first one's id.
    Twice(u8),
    /// Lists the tools.
    List,
    /// Calls a tool that nobody has.
    Unknown,
    /// Says something that is no message.
    Garbage(u8),
    /// Answers what nobody asked, and cancels what is not its own.
    Forged,
    /// Opens a stream for a moment.
    Listens,
    /// Ends its session and opens another one.
    Anew,
}

/// Ways of a server to answer.
pub(super) const WAYS: u8 = 20;
const CLIENTS: u8 = 3;
const STEPS: u8 = 6;

impl Plan {
    pub(super) fn draw(draw: &mut Draw<'_>) -> Self {
        let clients = 1 + draw.below(CLIENTS);
        let steps = |draw: &mut Draw<'_>| (0..=draw.below(STEPS)).map(|_| step(draw)).collect();
        Self { clients: (0..clients).map(|_| steps(draw)).collect() }
    }
}

fn step(draw: &mut Draw<'_>) -> Step {
    match draw.below(14) {
        0 | 1 => Step::Good,
        2..=4 => Step::Odd(draw.below(WAYS)),
        5 => Step::Cancelled(draw.below(WAYS), u64::from(draw.below(60))),
        6 => Step::HangsUp(draw.below(WAYS), u64::from(draw.below(60))),
        7 => Step::Twice(draw.below(WAYS)),
        8 => Step::List,
        9 => Step::Unknown,
        10 => Step::Garbage(draw.below(8)),
        11 => Step::Forged,
        12 => Step::Listens,
        _ => Step::Anew,
    }
}
