//! Codes of amounts.

super::codes! {
    EMPTY = "amount.empty", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount is empty",
        "An amount is a decimal number of the asset's smallest unit, as a string.",
        "write the amount; \"0\" means free",
    }
    DECIMAL_POINT = "amount.decimal_point", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount has a decimal point",
        "Amounts are whole numbers of the asset's smallest unit, without a decimal point or currency sign. 0.02 USDC is \"20000\", because USDC has 6 decimals.",
        "multiply by ten to the power of the asset's decimals",
    }
    SIGN = "amount.sign", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount has a sign",
        "Amounts are never negative, and a plus sign would be a second spelling of the same number.",
        "remove the sign",
    }
    LEADING_ZERO = "amount.leading_zero", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount has a leading zero",
        "Each amount has exactly one spelling, because manifests are hashed byte by byte.",
        "remove the leading zeros",
    }
    CHARACTER = "amount.character", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount has something other than decimal digits",
        "Exponents, separators, hexadecimal digits, units and spaces are not allowed.",
        "write decimal digits only",
    }
    TOO_LONG = "amount.too_long", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount has more than 78 digits",
        "78 digits hold the largest 256-bit number. Readers must refuse longer texts.",
        "write a smaller amount",
    }
    TOO_LARGE = "amount.too_large", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the amount does not fit 256 bits",
        "The largest amount is 2^256 - 1.",
        "write a smaller amount",
    }
}
