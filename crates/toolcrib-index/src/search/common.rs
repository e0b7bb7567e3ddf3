//! Words that many requests have in common: function words, request words, and synonyms.
//!
//! The frequency of a word is a good measure of its importance only in a large directory. In a small one `me` and `please` are rarer than
//! `weather`. These lists are valid for any directory. They are English, as the stemmer is.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::words::stems;

/// Articles, pronouns, prepositions, auxiliary verbs, and the pieces that apostrophes leave.
const FUNCTION_WORDS: &str = "
a about above across after again against ain all along already also although always am an and another any are aren as at be
because been before behind being below between beyond both but by can could couldn d did didn do does doesn doing don done
down during each either else even ever every few for from had hadn has hasn have haven having he her here hers herself him
himself his how i id if im in into is isn it its itself ive just let ll m many may me might mine more most much must my myself
near neither never no none nor not now of off on once only onto or other ought our ours ourselves out over own per quite re
really s same shall she should shouldn since so some still such t than that thats the their theirs them themselves then there
these they this those though through to too toward towards under unless until up upon us ve very via was wasn we were weren
what whatever whats when whenever where wherever whether which whichever while who whoever whom whose why will with within
without won would wouldn yet you your youre yours yourself yourselves
";

/// Words of asking. A tool may be about one of them, so they keep a part of their weight.
const REQUEST_WORDS: &str = "
able according anyone anything assist assistance available based best bit current detail details everything find get give
given good got great hello help hey hi hope including info information interested kind kindly know like look looking lot lots
make need new ok okay please possible provide question recommend recommendation recommendations regarding relevant see show
someone something sort specific suggest sure tell thank thanks thing things think try trying use used using want way ways well
wish wonder wondering yes
";

/// Synonyms in requests, one group per line. Written by hand from general knowledge of what tools are about.
const SYNONYMS: &str = "
buy purchase order shop shopping
cheap affordable budget discount deal bargain
price cost fee pricing expensive
pay payment transfer checkout
money currency dollar euro pound cash fund
exchange convert conversion
stock share equity invest investment portfolio market
finance financial bank banking
crypto cryptocurrency bitcoin token coin blockchain
loan mortgage credit debt lend
tax income salary wage
restaurant dining eat food meal dinner lunch cuisine
recipe cook cooking ingredient dish
diet nutrition calorie weight
drink wine beer cocktail beverage
hotel accommodation lodging stay room airbnb
trip travel vacation holiday tour tourism journey itinerary destination
flight airline airplane plane airport fly
train railway subway metro rail
bus transit transportation transport
taxi cab ride uber
car vehicle automobile auto
rent rental lease apartment housing
house home property estate realty
weather forecast temperature rain climate
map location place address direction route navigation
distance far
near nearby close around local
doctor physician medical health clinic hospital
therapist psychologist counselor therapy mental
medicine drug medication pharmacy
fitness exercise workout gym
lawyer attorney law legal court
lawsuit case litigation
job career employment hiring vacancy
resume cv
school education university college course
learn study tutor teach lesson
student pupil
book novel reading ebook
paper article publication research academic scholar
news headline journalism
movie film cinema theater
show series tv
song music track artist album playlist
concert gig event festival
picture image photo photograph photography illustration
draw drawing paint sketch art artwork
video clip youtube film
podcast audio radio
speech voice speak
translate translation language
write writing compose draft
summary summarize summarise abstract overview
edit modify change update alter
create make generate build produce
delete remove erase cancel
add insert append
retrieve get fetch obtain
find search locate lookup discover
calculate compute determine
check verify validate
compare comparison versus difference
reserve reservation book booking
schedule calendar appointment meeting agenda
remind reminder todo task note
email mail message inbox
phone call telephone
chat talk conversation
website webpage web site page url link
internet online google browse
code program programming software developer
repository github repo
database sql query
server host hosting
file document pdf
spreadsheet excel table csv
chart graph diagram plot visualization
data dataset statistic
math mathematics equation formula algebra
area surface
speed velocity
size dimension
game play player gaming
football soccer
sport team match league
chess checkers
dice roll
card deck
joke funny humor
gift present
fashion clothes clothing outfit wear style dress
beauty cosmetic makeup
pet dog cat animal
plant garden flower
star planet astronomy space
horoscope astrology zodiac tarot
religion bible quran scripture pray
child kid children
friend relationship dating
advice guidance counsel tip suggestion
idea inspiration brainstorm
opinion perspective viewpoint view
customer client consumer
company business firm corporation enterprise
product item goods
sale sell seller
advertisement ad marketing campaign promotion
seo keyword ranking
logo brand branding
design designer
domain hostname dns
security vulnerability malware
password login credential
user account profile
time clock timezone hour
date day
history historical past
country nation
city town
population demographic census
energy electricity power
environment pollution air
";

static FUNCTION: LazyLock<HashSet<&str>> = LazyLock::new(|| FUNCTION_WORDS.split_whitespace().collect());
static REQUEST: LazyLock<HashSet<&str>> = LazyLock::new(|| REQUEST_WORDS.split_whitespace().collect());
static GROUPS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut groups: HashMap<String, Vec<String>> = HashMap::new();
    for line in SYNONYMS.lines() {
        let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let terms = stems(&words);
        for term in &terms {
            let others = groups.entry(term.clone()).or_default();
            for other in &terms {
                if other != term && !others.contains(other) {
                    others.push(other.clone());
                }
            }
        }
    }
    groups
});

/// Whether a folded word is a function word.
pub(super) fn is_function(plain: &str) -> bool {
    FUNCTION.contains(plain)
}

/// Whether a folded word is a request word.
pub(super) fn is_request(plain: &str) -> bool {
    REQUEST.contains(plain)
}

/// Returns the synonyms of a term.
pub(super) fn synonyms(term: &str) -> &'static [String] {
    GROUPS.get(term).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_apart() {
        assert!(FUNCTION_WORDS.split_whitespace().is_sorted() && REQUEST_WORDS.split_whitespace().is_sorted());
        assert!(REQUEST_WORDS.split_whitespace().all(|word| !is_function(word)));
        assert!(is_function("the") && is_request("please") && !is_function("weather") && !is_request("weather"));
    }

    #[test]
    fn synonyms_hold_both_ways_and_are_stems() {
        for (term, others) in GROUPS.iter() {
            assert!(!others.contains(term), "{term}");
            for other in others {
                assert!(synonyms(other).contains(term), "{term} {other}");
            }
        }
        assert!(synonyms("film").contains(&"movi".to_owned()));
        assert!(synonyms("xyzzi").is_empty());
    }
}
